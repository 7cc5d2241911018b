#include "runtime/nn/sequence_length.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

/// Of (T, F), each position is computed from itself, and by attention those before it.
constexpr LayerKind kRowLayers[] = {
    LayerKind::Linear,    LayerKind::Embedding, LayerKind::Positions, LayerKind::Attention,
    LayerKind::LayerNorm, LayerKind::RmsNorm,   LayerKind::Relu,      LayerKind::Gelu,
    LayerKind::Sigmoid,   LayerKind::Silu,      LayerKind::Tanh,      LayerKind::Relu6,
    LayerKind::LeakyRelu, LayerKind::Softmax,   LayerKind::Dropout,   LayerKind::StochasticDepth,
    LayerKind::Add};

std::string reason_against(const Layer& layer, int64_t length) {
  const std::string begin = "layer '" + layer.name + "' (" + name(layer.kind) + ") ";
  if (layer.kind == LayerKind::Attention && !layer.causal) {
    return begin + "looks at the positions behind, with 'causal: false'";
  }
  const bool has_rows = layer.shape.size() == 2 && layer.shape[0] == length;
  if (std::ranges::count(kRowLayers, layer.kind) > 0 && has_rows) return {};
  return begin + "does not compute position by position";
}

}  // namespace

std::string reason_against_padding(const Model& model) {
  for (const Layer& layer : model.layers) {
    std::string reason = reason_against(layer, model.input[0]);
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
    DLFLOW_CHECK(layer.shape.size() == 2 && layer.shape[0] == whole);
    layer.shape[0] = length;
  }
  return model;
}

}  // namespace dlflow::runtime
