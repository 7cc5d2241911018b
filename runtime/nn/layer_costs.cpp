#include "runtime/nn/layer_costs.h"

#include "runtime/nn/layer_shapes.h"

namespace dlflow::runtime {
namespace {

int64_t parameters_of(const Layer& layer, const TensorShape& in) {
  int64_t count = 0;
  for (const LayerTensor& tensor : tensors_of(layer, in)) {
    if (tensor.trainable) count += num_numbers(tensor.shape);
  }
  return count;
}

/// Counts the scores of queries and keys, and the weighted sums of values, over all pairs of
/// positions that attention visits.
int64_t multiply_adds_of_attention(const Layer& layer) {
  const int64_t positions = layer.shape[0], features = layer.shape[1];
  const int64_t pairs = layer.causal ? positions * (positions + 1) / 2 : positions * positions;
  return 2 * pairs * features;
}

/// The few additions or multiplications per number in other kinds are not counted.
int64_t multiply_adds_of(const Layer& layer, const TensorShape& in) {
  const int64_t window = layer.kernel.height * layer.kernel.width;
  if (layer.kind == LayerKind::Conv2d) {
    return num_numbers(layer.shape) * (in[0] / layer.groups) * window;
  }
  if (layer.kind == LayerKind::ConvTranspose2d) return num_numbers(in) * layer.units * window;
  if (layer.kind == LayerKind::Linear) return num_numbers(layer.shape) * in.back();
  if (layer.kind == LayerKind::Attention) return multiply_adds_of_attention(layer);
  return 0;
}

}  // namespace

LayerCost cost_of(const Model& model, const Layer& layer) {
  const TensorShape& in = model.shape_of(layer.inputs[0]);
  return {parameters_of(layer, in), multiply_adds_of(layer, in)};
}

LayerCost cost_of(const Model& model) {
  LayerCost total;
  for (const Layer& layer : model.layers) {
    const LayerCost cost = cost_of(model, layer);
    total.parameters += cost.parameters;
    total.multiply_adds += cost.multiply_adds;
  }
  return total;
}

}  // namespace dlflow::runtime
