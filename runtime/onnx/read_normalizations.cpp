#include <cmath>

#include "base/text.h"
#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

constexpr float kLayerEpsilon = 1e-5f;  // in dlflow's normalisations

void require_epsilon(NodeReader& node) {
  const float epsilon = node.number("epsilon", kLayerEpsilon);
  if (std::abs(epsilon - kLayerEpsilon) < 1e-9f) return;
  char text[32];
  std::snprintf(text, sizeof text, "%g", double(epsilon));
  refuse("its epsilon is " + std::string(text) + "; that of dlflow's layers is 1e-5");
}

void require_size(const ImportedTensor& tensor, int64_t size) {
  if (tensor.shape != std::vector<int64_t>{size})
    refuse("its weights are not those of " + std::to_string(size) + " channels");
}

/// Adds a layer with a weight and, if `has_bias`, a bias for each channel or feature.
void add_normalization(NodeReader& node, Layer layer, bool has_bias) {
  const TensorShape shape = node.shape(0);
  const int index = node.add(std::move(layer), {node.layer(0)}, 1);
  for (const auto& [input, name] : {std::pair{size_t{1}, "weight"}, {size_t{2}, "bias"}}) {
    if (input == 2 && !has_bias) continue;
    ImportedTensor tensor = node.weights(input);
    require_size(tensor, shape.size() == 3 ? shape[0] : shape.back());
    node.network().set(index, name, std::move(tensor));
  }
}

void add_group_norm(NodeReader& node, int64_t groups) {
  require_epsilon(node);
  check_groups(groups);
  add_normalization(node, {.kind = LayerKind::GroupNorm, .groups = groups}, true);
}

/// Adds a normalisation over the last dimension.
void add_feature_norm(NodeReader& node, LayerKind kind) {
  require_epsilon(node);
  const auto rank = int64_t(node.shape(0).size()) + 1;
  const int64_t axis = node.integer("axis", -1);
  if (rank > 3 || (axis != -1 && axis != rank - 1))
    refuse("dlflow's " + std::string(name(kind)) +
           " works only along the last dimension of (B,F) or (B,T,F)");
  Layer layer = {.kind = kind};
  const bool has_bias = kind == LayerKind::LayerNorm && node.has(2);
  if (kind == LayerKind::LayerNorm) layer.bias = has_bias;
  add_normalization(node, std::move(layer), has_bias);
}

}  // namespace

void read_batch_norm(NodeReader& node) {
  if (node.integer("training_mode", 0) != 0) {
    refuse("it is in training mode; export the network for inference (PyTorch: model.eval())");
  }
  const float epsilon = node.number("epsilon", kLayerEpsilon);
  const int64_t channels = node.shape(0)[0];
  std::vector<ImportedTensor> tensors;
  for (const size_t input : {1, 2, 3, 4}) {
    tensors.push_back(node.weights(input));
    require_size(tensors.back(), channels);
  }
  if (std::abs(epsilon - kLayerEpsilon) > 1e-9f) {
    for (float& variance : tensors[3].numbers) variance += epsilon - kLayerEpsilon;
    node.note("Batch normalisation '" + escaped(node.result()) +
              "' has another epsilon than dlflow's 1e-5; its running variance makes up for it.");
  }
  const int index = node.add({.kind = LayerKind::BatchNorm}, {node.layer(0)}, 1);
  const char* const names[] = {"weight", "bias", "running_mean", "running_var"};
  for (size_t i = 0; i < 4; ++i) node.network().set(index, names[i], std::move(tensors[i]));
}

void read_instance_norm(NodeReader& node) { add_group_norm(node, node.shape(0)[0]); }
void read_group_norm(NodeReader& node) { add_group_norm(node, node.integer("num_groups", 0)); }

void read_layer_norm(NodeReader& node) { add_feature_norm(node, LayerKind::LayerNorm); }
void read_rms_norm(NodeReader& node) { add_feature_norm(node, LayerKind::RmsNorm); }

}  // namespace dlflow::runtime
