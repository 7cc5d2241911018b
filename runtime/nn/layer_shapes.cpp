#include "runtime/nn/layer_shapes.h"

#include <algorithm>
#include <cmath>

namespace dlflow::runtime {
namespace {

bool is_map(const TensorShape& shape) { return shape.size() == 3; }
bool is_sequence(const TensorShape& shape) { return shape.size() == 2; }

std::string needs(const Layer& layer, const char* what, const LayerInputs& inputs) {
  return name(layer.kind) + " needs " + what + ", but gets " + to_string(inputs.shapes[0]) +
         " from '" + inputs.names[0] + "'";
}

/// The layer's window along one direction of a map.
struct Window {
  int64_t kernel, stride, padding, dilation;

  /// The number of positions that the window takes along `size`, or 0 if it does not fit.
  int64_t count(int64_t size) const {
    const int64_t free = size + 2 * padding - dilation * (kernel - 1) - 1;
    return free < 0 ? 0 : free / stride + 1;
  }

  /// The size along which the window takes exactly `count` positions.
  int64_t size(int64_t count) const { return (count - 1) * stride - 2 * padding + kernel; }
};

Window down(const Layer& l) {
  return {l.kernel.height, l.stride.height, l.padding.height, l.dilation.height};
}
Window across(const Layer& l) {
  return {l.kernel.width, l.stride.width, l.padding.width, l.dilation.width};
}

std::string not_divisible(const Layer& layer, const char* what, int64_t groups, int64_t number,
                          const char* of_what) {
  return name(layer.kind) + " with " + std::to_string(groups) + " " + what + " does not divide " +
         std::to_string(number) + " " + of_what;
}

/// For layers that accept any shape and keep it.
std::string infer_same(Layer& layer, const LayerInputs& inputs) {
  layer.shape = inputs.shapes[0];
  return {};
}

constexpr auto infer_relu = infer_same, infer_gelu = infer_same, infer_sigmoid = infer_same,
               infer_silu = infer_same, infer_tanh = infer_same, infer_relu6 = infer_same,
               infer_leaky_relu = infer_same, infer_dropout = infer_same,
               infer_stochastic_depth = infer_same;

/// For layers that move a window over maps and return maps of `channels`.
std::string infer_window(Layer& layer, const LayerInputs& inputs, int64_t channels) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_map(in)) return needs(layer, "(B,C,H,W)", inputs);
  const int64_t height = down(layer).count(in[1]);
  const int64_t width = across(layer).count(in[2]);
  if (height == 0 || width == 0) {
    return name(layer.kind) + " with kernel " + to_string(layer.kernel) + " and padding " +
           to_string(layer.padding) + " does not fit into " + to_string(in);
  }
  layer.shape = {channels, height, width};
  return {};
}

std::string infer_max_pool(Layer& layer, const LayerInputs& inputs) {
  return infer_window(layer, inputs, inputs.shapes[0][0]);
}
constexpr auto infer_avg_pool = infer_max_pool;

std::string infer_conv2d(Layer& layer, const LayerInputs& inputs) {
  const TensorShape& in = inputs.shapes[0];
  for (const int64_t channels : {is_map(in) ? in[0] : layer.groups, layer.units}) {
    if (channels % layer.groups == 0) continue;
    return not_divisible(layer, "groups", layer.groups, channels, "channels");
  }
  return infer_window(layer, inputs, layer.units);
}

std::string infer_conv_transpose2d(Layer& layer, const LayerInputs& inputs) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_map(in)) return needs(layer, "(B,C,H,W)", inputs);
  const int64_t height = down(layer).size(in[1]), width = across(layer).size(in[2]);
  if (height < 1 || width < 1) {
    return "conv_transpose2d with kernel " + to_string(layer.kernel) + " and padding " +
           to_string(layer.padding) + " leaves no pixel of " + to_string(in);
  }
  layer.shape = {layer.units, height, width};
  return {};
}

std::string infer_global_avg_pool(Layer& layer, const LayerInputs& inputs) {
  if (!is_map(inputs.shapes[0])) return needs(layer, "(B,C,H,W)", inputs);
  layer.shape = {inputs.shapes[0][0]};
  return {};
}

/// The mean over the positions of a sequence.
std::string infer_mean_pool(Layer& layer, const LayerInputs& inputs) {
  if (!is_sequence(inputs.shapes[0])) return needs(layer, "(B,T,F)", inputs);
  layer.shape = {inputs.shapes[0][1]};
  return {};
}

std::string infer_linear(Layer& layer, const LayerInputs& inputs) {
  if (is_map(inputs.shapes[0])) {
    return needs(layer, "(B,F)", inputs) + "; put 'flatten' or 'global_avg_pool' before it";
  }
  layer.shape = inputs.shapes[0];
  layer.shape.back() = layer.units;
  return {};
}

std::string infer_embedding(Layer& layer, const LayerInputs& inputs) {
  if (inputs.shapes[0].size() != 1) return needs(layer, "(B,T) numbers of tokens", inputs);
  layer.shape = {inputs.shapes[0][0], layer.units};
  return {};
}

std::string infer_positions(Layer& layer, const LayerInputs& inputs) {
  if (!is_sequence(inputs.shapes[0])) return needs(layer, "(B,T,F)", inputs);
  return infer_same(layer, inputs);
}

/// The input holds queries, keys and values, in this order.
std::string infer_attention(Layer& layer, const LayerInputs& inputs) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_sequence(in)) return needs(layer, "(B,T,F)", inputs);
  if (layer.heads % layer.kv_heads != 0) {
    return not_divisible(layer, "kv_heads", layer.kv_heads, layer.heads, "heads");
  }
  const int64_t parts = layer.heads + 2 * layer.kv_heads;
  if (in[1] % parts != 0) {
    return "attention reads queries, keys and values of " + std::to_string(layer.heads) +
           " + 2 * " + std::to_string(layer.kv_heads) + " heads, which do not divide the " +
           std::to_string(in[1]) + " features of '" + inputs.names[0] + "'";
  }
  const int64_t head = in[1] / parts;
  if (layer.rotary && head % 2 != 0) {
    return "attention with rotary positions needs heads of an even size, but gets " +
           std::to_string(head);
  }
  layer.shape = {in[0], layer.heads * head};
  return {};
}

std::string infer_group_norm(Layer& layer, const LayerInputs& inputs) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_map(in)) return needs(layer, "(B,C,H,W)", inputs);
  if (in[0] % layer.groups != 0) {
    return not_divisible(layer, "groups", layer.groups, in[0], "channels");
  }
  return infer_same(layer, inputs);
}

/// For layers that compute along the features.
std::string infer_along_features(Layer& layer, const LayerInputs& inputs) {
  if (is_map(inputs.shapes[0])) return needs(layer, "(B,F) or (B,T,F)", inputs);
  return infer_same(layer, inputs);
}

constexpr auto infer_layer_norm = infer_along_features, infer_rms_norm = infer_along_features,
               infer_softmax = infer_along_features;

std::string infer_adaptive_avg_pool(Layer& layer, const LayerInputs& inputs) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_map(in)) return needs(layer, "(B,C,H,W)", inputs);
  layer.shape = {in[0], layer.size.height, layer.size.width};
  return {};
}

std::string infer_upsample(Layer& layer, const LayerInputs& inputs) {
  const TensorShape& in = inputs.shapes[0];
  if (!is_map(in)) return needs(layer, "(B,C,H,W)", inputs);
  layer.shape = {in[0], in[1] * layer.scale, in[2] * layer.scale};
  return {};
}

/// Concatenates maps along their first dimension, sequences along their last.
std::string infer_concat(Layer& layer, const LayerInputs& inputs) {
  layer.shape = inputs.shapes[0];
  const size_t joined = is_sequence(layer.shape) ? 1 : 0;
  for (size_t i = 1; i < inputs.shapes.size(); ++i) {
    TensorShape other = inputs.shapes[i];
    const bool same_rank = other.size() == layer.shape.size();
    const int64_t more = same_rank ? other[joined] : 0;
    if (same_rank) other[joined] = layer.shape[joined];
    if (other != layer.shape) {
      return "concat needs shapes that differ only in " +
             std::string(joined == 0 ? "channels" : "features") + ", but gets " +
             to_string(inputs.shapes[0]) + " from '" + inputs.names[0] + "' and " +
             to_string(inputs.shapes[i]) + " from '" + inputs.names[i] + "'";
    }
    layer.shape[joined] += more;
  }
  return {};
}

std::string infer_flatten(Layer& layer, const LayerInputs& inputs) {
  layer.shape = {num_numbers(inputs.shapes[0])};
  return {};
}

std::string infer_batch_norm(Layer& layer, const LayerInputs& inputs) {
  if (is_sequence(inputs.shapes[0])) return needs(layer, "(B,C,H,W) or (B,F)", inputs);
  return infer_same(layer, inputs);
}

std::string infer_add(Layer& layer, const LayerInputs& inputs) {
  layer.shape = inputs.shapes[0];
  if (inputs.shapes[0] == inputs.shapes[1]) return {};
  return "add needs two equal shapes, but gets " + to_string(inputs.shapes[0]) + " from '" +
         inputs.names[0] + "' and " + to_string(inputs.shapes[1]) + " from '" + inputs.names[1] +
         "'";
}

/// The initial scale of a normalisation.
float first_scale(const Layer& layer) { return layer.init == Init::Zero ? 0 : 1; }

/// As in PyTorch, fan_in is the product of all dimensions of the weight but the first, fan_out of
/// all but the second.
std::vector<LayerTensor> weight_and_bias(const Layer& layer, std::vector<int64_t> weight) {
  int64_t fan_in = 1;
  for (size_t i = 1; i < weight.size(); ++i) fan_in *= weight[i];
  const int64_t fan_out = fan_in / weight[1] * weight[0];
  std::vector<LayerTensor> tensors = {{"weight", std::move(weight), fan_in}};
  if (layer.bias) tensors.push_back({"bias", {layer.units}, fan_in});
  if (layer.init == Init::PyTorch) return tensors;
  if (layer.init == Init::He) tensors[0].deviation = float(std::sqrt(2.0 / double(fan_in)));
  if (layer.init == Init::Xavier)
    tensors[0].bound = float(std::sqrt(6.0 / double(fan_in + fan_out)));
  if (layer.bias) tensors[1].fan_in = 0;
  return tensors;
}

}  // namespace

bool has_winograd_form(const Layer& layer) {
  return layer.kernel == Extent(3) && layer.stride == Extent(1) && layer.dilation == Extent(1) &&
         layer.groups == 1;
}

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
  const int64_t channels = in[0], features = in.back();
  const Extent& kernel = layer.kernel;
  switch (layer.kind) {
    case LayerKind::Conv2d:
      return weight_and_bias(layer,
                             {layer.units, channels / layer.groups, kernel.height, kernel.width});
    case LayerKind::ConvTranspose2d:
      return weight_and_bias(layer, {channels, layer.units, kernel.height, kernel.width});
    case LayerKind::Linear: {
      std::vector<LayerTensor> tensors = weight_and_bias(layer, {layer.units, features});
      if (layer.tied != kImages) tensors.erase(tensors.begin());
      return tensors;
    }
    case LayerKind::Embedding:
      return {{"weight", {layer.vocabulary, layer.units}, 0, 0, true, 0, kEmbeddingDeviation}};
    case LayerKind::Positions:
      return {{"weight",
               {layer.vocabulary > 0 ? layer.vocabulary : in[0], features},
               0,
               0,
               true,
               0,
               kEmbeddingDeviation}};
    case LayerKind::LayerNorm:
      if (!layer.bias) return {{"weight", {features}, 0, 1}};
      return {{"weight", {features}, 0, 1}, {"bias", {features}}};
    case LayerKind::RmsNorm:
      return {{"weight", {features}, 0, 1}};
    case LayerKind::GroupNorm:
      return {{"weight", {channels}, 0, first_scale(layer)}, {"bias", {channels}}};
    case LayerKind::BatchNorm:
      return {{"weight", {channels}, 0, first_scale(layer)},
              {"bias", {channels}},
              {"running_mean", {channels}, 0, 0, false},
              {"running_var", {channels}, 0, 1, false}};
    case LayerKind::Relu:
    case LayerKind::Gelu:
    case LayerKind::Sigmoid:
    case LayerKind::Silu:
    case LayerKind::Tanh:
    case LayerKind::Relu6:
    case LayerKind::LeakyRelu:
    case LayerKind::Softmax:
    case LayerKind::Dropout:
    case LayerKind::StochasticDepth:
    case LayerKind::Attention:
    case LayerKind::MeanPool:
    case LayerKind::AdaptiveAvgPool:
    case LayerKind::Upsample:
    case LayerKind::Concat:
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
