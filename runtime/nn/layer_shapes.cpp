#include "runtime/nn/layer_shapes.h"

#include <algorithm>

namespace dlflow::runtime {
namespace {

bool is_map(const TensorShape& shape) { return shape.size() == 3; }

std::string wants(const Layer& layer, const char* what, const LayerInputs& inputs) {
  return name(layer.kind) + " wants " + what + ", gets " + to_string(inputs.shapes[0]) + " from '" +
         inputs.names[0] + "'";
}

/// The number of places a window of `kernel` takes along `size`, or 0 if it does not fit.
int64_t num_windows(const Layer& layer, int64_t size) {
  const int64_t free = size + 2 * layer.padding - layer.kernel;
  return free < 0 ? 0 : free / layer.stride + 1;
}

/// Of a layer that moves a window over maps, and gives maps of `channels`.
std::string infer_window(Layer& layer, const LayerInputs& inputs, int64_t channels) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_map(in)) return wants(layer, "(B,C,H,W)", inputs);
  const int64_t height = num_windows(layer, in[1]);
  const int64_t width = num_windows(layer, in[2]);
  if (height == 0 || width == 0) {
    return name(layer.kind) + " with kernel " + std::to_string(layer.kernel) + " and padding " +
           std::to_string(layer.padding) + " does not fit into " + to_string(in);
  }
  layer.shape = {channels, height, width};
  return {};
}

std::string infer_conv2d(Layer& layer, const LayerInputs& inputs) {
  return infer_window(layer, inputs, layer.units);
}

std::string infer_max_pool(Layer& layer, const LayerInputs& inputs) {
  return infer_window(layer, inputs, inputs.shapes[0][0]);
}

std::string infer_avg_pool(Layer& layer, const LayerInputs& inputs) {
  return infer_window(layer, inputs, inputs.shapes[0][0]);
}

std::string infer_global_avg_pool(Layer& layer, const LayerInputs& inputs) {
  if (!is_map(inputs.shapes[0])) return wants(layer, "(B,C,H,W)", inputs);
  layer.shape = {inputs.shapes[0][0]};
  return {};
}

std::string infer_linear(Layer& layer, const LayerInputs& inputs) {
  if (inputs.shapes[0].size() != 1) {
    return wants(layer, "(B,F)", inputs) + "; put 'flatten' or 'global_avg_pool' before it";
  }
  layer.shape = {layer.units};
  return {};
}

std::string infer_flatten(Layer& layer, const LayerInputs& inputs) {
  int64_t size = 1;
  for (const int64_t n : inputs.shapes[0]) size *= n;
  layer.shape = {size};
  return {};
}

std::string infer_batch_norm(Layer& layer, const LayerInputs& inputs) {
  layer.shape = inputs.shapes[0];
  return {};
}

std::string infer_relu(Layer& layer, const LayerInputs& inputs) {
  layer.shape = inputs.shapes[0];
  return {};
}

std::string infer_gelu(Layer& layer, const LayerInputs& inputs) {
  return infer_relu(layer, inputs);
}

std::string infer_sigmoid(Layer& layer, const LayerInputs& inputs) {
  return infer_relu(layer, inputs);
}

std::string infer_silu(Layer& layer, const LayerInputs& inputs) {
  return infer_relu(layer, inputs);
}

std::string infer_tanh(Layer& layer, const LayerInputs& inputs) {
  return infer_relu(layer, inputs);
}

std::string infer_add(Layer& layer, const LayerInputs& inputs) {
  layer.shape = inputs.shapes[0];
  if (inputs.shapes[0] == inputs.shapes[1]) return {};
  return "add wants two equal shapes, gets " + to_string(inputs.shapes[0]) + " from '" +
         inputs.names[0] + "' and " + to_string(inputs.shapes[1]) + " from '" + inputs.names[1] +
         "'";
}

std::vector<LayerTensor> weight_and_bias(const Layer& layer, std::vector<int64_t> weight) {
  int64_t fan_in = 1;
  for (size_t i = 1; i < weight.size(); ++i) fan_in *= weight[i];
  std::vector<LayerTensor> tensors = {{"weight", std::move(weight), fan_in}};
  if (layer.bias) tensors.push_back({"bias", {layer.units}, fan_in});
  return tensors;
}

}  // namespace

std::string infer_shape(Layer& layer, const LayerInputs& inputs) {
  switch (layer.kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return infer_##word(layer, inputs);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return {};
}

std::vector<LayerTensor> tensors_of(const Layer& layer, const TensorShape& in) {
  const int64_t channels = in[0];
  switch (layer.kind) {
    case LayerKind::Conv2d:
      return weight_and_bias(layer, {layer.units, channels, layer.kernel, layer.kernel});
    case LayerKind::Linear:
      return weight_and_bias(layer, {layer.units, channels});
    case LayerKind::BatchNorm:
      return {{"weight", {channels}, 0, 1},
              {"bias", {channels}},
              {"running_mean", {channels}, 0, 0, false},
              {"running_var", {channels}, 0, 1, false}};
    case LayerKind::Relu:
    case LayerKind::Gelu:
    case LayerKind::Sigmoid:
    case LayerKind::Silu:
    case LayerKind::Tanh:
    case LayerKind::MaxPool:
    case LayerKind::AvgPool:
    case LayerKind::GlobalAvgPool:
    case LayerKind::Flatten:
    case LayerKind::Add:
      return {};
  }
  return {};
}

}  // namespace dlflow::runtime
