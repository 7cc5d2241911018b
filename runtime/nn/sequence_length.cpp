#include "runtime/nn/sequence_length.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Layers that compute each position of (T, F) from itself and, in attention, earlier ones.
constexpr LayerKind kRowLayers[] = {
    LayerKind::Linear,    LayerKind::Embedding, LayerKind::Positions, LayerKind::Attention,
    LayerKind::LayerNorm, LayerKind::RmsNorm,   LayerKind::Relu,      LayerKind::Gelu,
    LayerKind::Sigmoid,   LayerKind::Silu,      LayerKind::Tanh,      LayerKind::Relu6,
    LayerKind::LeakyRelu, LayerKind::Softmax,   LayerKind::Dropout,   LayerKind::StochasticDepth,
    LayerKind::Add};

bool has_positions(const TensorShape& shape, int64_t length) {
  return shape.size() == 2 && shape[0] == length;
}

/// Whether the layer follows a mean over positions, and so has none.
bool is_behind_pool(const Model& model, const Layer& layer) {
  return std::ranges::all_of(layer.inputs, [&](int input) {
    return input != kImages && model.shape_of(input).size() == 1;
  });
}

std::string reason_against(const Model& model, const Layer& layer) {
  const int64_t length = model.input[0];
  const std::string begin = "layer '" + layer.name + "' (" + name(layer.kind) + ") ";
  const bool has_class = model.loss == LossKind::SoftmaxCrossEntropy;
  if (has_class && (layer.kind == LayerKind::MeanPool || is_behind_pool(model, layer))) return {};
  if (!has_class && layer.kind == LayerKind::Attention && !layer.causal) {
    return begin + "looks at the positions behind, with 'causal: false'";
  }
  const bool is_row_layer = std::ranges::count(kRowLayers, layer.kind) > 0;
  if (is_row_layer && has_positions(layer.shape, length)) return {};
  if (!has_class) return begin + "does not compute position by position";
  return begin + "is neither computed position by position nor behind 'mean_pool'";
}

}  // namespace

std::string reason_against_padding(const Model& model) {
  for (const Layer& layer : model.layers) {
    std::string reason = reason_against(model, layer);
    if (!reason.empty()) return reason;
  }
  return {};
}

Model with_length(Model model, int64_t length) {
  const int64_t whole = model.input[0];
  DLFLOW_CHECK(length > 0 && length <= whole);
  model.input[0] = length;
  for (Layer& layer : model.layers) {
    if (layer.kind == LayerKind::Positions) layer.vocabulary = layer.shape[0];
    if (layer.shape.size() == 1) continue;  // follows a mean over positions
    DLFLOW_CHECK(has_positions(layer.shape, whole));
    layer.shape[0] = length;
  }
  return model;
}

}  // namespace dlflow::runtime
