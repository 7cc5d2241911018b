#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

/// A group normalisation that multiplies with 1 and adds 0, until a node says otherwise.
int add_group_norm(NodeReader& node, int input, int64_t groups) {
  const TensorShape in = node.network().shape_of(input);
  Layer layer;
  layer.kind = LayerKind::GroupNorm;
  layer.groups = groups;
  const int index = node.add(std::move(layer), {input});
  const auto channels = size_t(in[0]);
  node.network().set(index, "weight", {{in[0]}, std::vector<float>(channels, 1)});
  node.network().set(index, "bias", {{in[0]}, std::vector<float>(channels, 0)});
  return index;
}

bool has_only(const std::vector<float>& numbers, float number) {
  return std::ranges::all_of(numbers, [&](float each) { return each == number; });
}

void set_scale_and_bias(NodeReader& node, int index) {
  const TensorShape& shape = node.network().at(index).shape;
  const int64_t size = shape.size() == 3 ? shape[0] : shape.back();
  for (const auto& [input, name] : {std::pair{size_t{1}, "weight"}, {size_t{2}, "bias"}}) {
    if (!node.has(input)) continue;
    ImportedTensor tensor = node.weights(input);
    require_size(tensor, size);
    node.network().set(index, name, std::move(tensor));
  }
}

}  // namespace

void require_epsilon(float epsilon) {
  if (std::abs(epsilon - kLayerEpsilon) < 1e-9f) return;
  char text[32];
  std::snprintf(text, sizeof text, "%g", double(epsilon));
  refuse("its epsilon is " + std::string(text) + "; that of dlflow's layers is 1e-5");
}

void require_last_dimension(const TensorShape& shape, const std::vector<int64_t>& axes,
                            const std::string& layer) {
  const auto rank = int64_t(shape.size()) + 1;
  const bool is_last = axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1);
  if (rank > 3 || !is_last)
    refuse(layer + " of dlflow is along the last dimension of (B,F) or (B,T,F)");
}

void require_size(const ImportedTensor& tensor, int64_t size) {
  if (tensor.shape != std::vector<int64_t>{size})
    refuse("its weights are not those of " + std::to_string(size) + " channels");
}

void read_batch_norm(NodeReader& node) {
  if (node.integer("training_mode", 0) != 0) {
    refuse("it is in training mode; export the network as it is to be run (PyTorch: model.eval())");
  }
  const float epsilon = node.number("epsilon", kLayerEpsilon);
  Layer layer;
  layer.kind = LayerKind::BatchNorm;
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
  const int index = node.add(std::move(layer), {node.layer(0)}, 1);
  const char* const names[] = {"weight", "bias", "running_mean", "running_var"};
  for (size_t i = 0; i < 4; ++i) node.network().set(index, names[i], std::move(tensors[i]));
}

void read_instance_norm(NodeReader& node) {
  require_epsilon(node.number("epsilon", kLayerEpsilon));
  if (node.is(GraphValue::Kind::Grouped, 0)) {
    const GraphValue grouped = node.value(0);
    if (!has_only(node.constant(1).floats, 1) || !has_only(node.constant(2).floats, 0))
      refuse("it has weights for groups; those of dlflow's group_norm are for channels");
    const int index = add_group_norm(node, grouped.layer, grouped.groups);
    return node.give({.kind = GraphValue::Kind::Normalized, .layer = index});
  }
  set_scale_and_bias(node, add_group_norm(node, node.layer(0), node.shape(0)[0]));
}

void read_group_norm(NodeReader& node) {
  require_epsilon(node.number("epsilon", kLayerEpsilon));
  const int64_t groups = node.integer("num_groups", 0);
  check_groups(groups);
  set_scale_and_bias(node, add_group_norm(node, node.layer(0), groups));
}

void read_layer_norm(NodeReader& node) {
  require_epsilon(node.number("epsilon", kLayerEpsilon));
  require_last_dimension(node.shape(0), {node.integer("axis", -1)}, "layer_norm");
  Layer layer;
  layer.kind = LayerKind::LayerNorm;
  layer.bias = node.has(2);
  set_scale_and_bias(node, node.add(std::move(layer), {node.layer(0)}, 1));
}

bool complete_group_norm(NodeReader& node, size_t layer, size_t constant, const char* tensor) {
  const int index = node.layer(layer);
  if (!node.is_only_reader_of_layer(layer)) return false;
  const Layer& before = node.network().at(index);
  if (before.kind != LayerKind::GroupNorm) return false;
  const auto numbers = per_channel(node.constant(constant), before.shape);
  ImportedTensor& own = node.network().tensor(index, tensor);
  const bool is_weight = std::string(tensor) == "weight";
  // The weight multiplies before the bias is added.
  if (is_weight && !has_only(node.network().tensor(index, "bias").numbers, 0)) return false;
  const bool is_set = !has_only(own.numbers, is_weight ? 1 : 0);
  if (!numbers || numbers->size() != own.numbers.size() || is_set) return false;
  own.numbers = *numbers;
  node.give_layer(index);
  return true;
}

}  // namespace dlflow::runtime
