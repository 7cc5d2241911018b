#include "runtime/onnx/write_onnx.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/model.h"
#include "runtime/onnx/graph_writer.h"

/// One function per kind of layer, called export_WORD, as in runtime/nn/layers.def. Layers without
/// an ONNX operation, or only one in a newer operator set, are composed of others.
namespace dlflow::runtime {
namespace {

/// Values that mark the positions of tokens, for a network that ignores all others.
struct TextLengths {
  std::string lengths;  ///< an input: number of tokens per text, (batch)
  std::string real;     ///< whether a position has a token, (batch,T)

  bool given() const { return !lengths.empty(); }
};

constexpr float kEpsilon = 1e-5f;
constexpr float kUnseen = -1e30f;  // score of a position that attention ignores

struct LayerExport {
  OnnxGraph& graph;
  const Model& model;
  const Layer& layer;
  std::span<const std::string> inputs;
  const TextLengths& text;

  const TensorShape& in() const { return model.shape_of(layer.inputs[0]); }

  std::string weight() const { return model.weight_of(layer); }
  std::string bias() const { return layer.name + ".bias"; }

  /// Adds a node whose result is named after the layer.
  std::string add(const std::string& operation, const std::vector<std::string>& from,
                  const OnnxAttributes& attributes = {}) const {
    return graph.add(layer.name, operation, from, attributes);
  }

  std::string number(float value) const { return graph.add_floats(layer.name, {}, {&value, 1}); }

  std::string reshape(const std::string& value, const std::vector<int64_t>& shape) const {
    return add("Reshape", {value, graph.add_integers(layer.name, shape)});
  }
};

std::vector<int64_t> both(const Extent& extent) { return {extent.height, extent.width}; }

/// Zeros before and after each direction.
std::vector<int64_t> pads(const Layer& l) {
  return {l.padding.height, l.padding.width, l.padding.height, l.padding.width};
}

std::string product_with_bias(const LayerExport& e, const std::string& operation,
                              const OnnxAttributes& attributes) {
  std::vector<std::string> from = {e.inputs[0], e.weight()};
  if (e.layer.bias) from.push_back(e.bias());
  return e.add(operation, from, attributes);
}

std::string export_conv2d(const LayerExport& e) {
  return product_with_bias(e, "Conv",
                           {{"kernel_shape", both(e.layer.kernel)},
                            {"strides", both(e.layer.stride)},
                            {"pads", pads(e.layer)},
                            {"dilations", both(e.layer.dilation)},
                            {"group", e.layer.groups}});
}

std::string export_conv_transpose2d(const LayerExport& e) {
  return product_with_bias(e, "ConvTranspose",
                           {{"kernel_shape", both(e.layer.kernel)},
                            {"strides", both(e.layer.stride)},
                            {"pads", pads(e.layer)}});
}

std::string export_linear(const LayerExport& e) {
  if (e.in().size() == 1) return product_with_bias(e, "Gemm", {{"transB", int64_t{1}}});
  const std::string transposed = e.add("Transpose", {e.weight()});
  const std::string product = e.add("MatMul", {e.inputs[0], transposed});
  return e.layer.bias ? e.add("Add", {product, e.bias()}) : product;
}

std::string export_embedding(const LayerExport& e) {
  return e.add("Gather", {e.weight(), e.inputs[0]});
}

std::string export_positions(const LayerExport& e) {
  return e.add("Add", {e.inputs[0], e.weight()});
}

/// Rotates both halves of each head in (batch, heads, T, D) by angles that grow with T.
std::string rotated(const LayerExport& e, const std::string& heads, int64_t size) {
  const int64_t positions = e.in()[0], half = size / 2;
  std::vector<float> cosines, sines;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = double(t) * std::pow(10000.0, -double(i) / double(half));
      cosines.push_back(float(std::cos(angle)));
      sines.push_back(float(std::sin(angle)));
    }
  }
  const std::string cos = e.graph.add_floats(e.layer.name, {positions, half}, cosines);
  const std::string sin = e.graph.add_floats(e.layer.name, {positions, half}, sines);
  const auto part = [&](int64_t begin, int64_t end) {
    const auto integer = [&](int64_t n) { return e.graph.add_integers(e.layer.name, {n}); };
    return e.add("Slice", {heads, integer(begin), integer(end), integer(-1)});
  };
  const auto times = [&](const std::string& a, const std::string& b) {
    return e.add("Mul", {a, b});
  };
  const std::string a = part(0, half), b = part(half, size);
  const std::string first = e.add("Sub", {times(a, cos), times(b, sin)});
  const std::string second = e.add("Add", {times(b, cos), times(a, sin)});
  return e.add("Concat", {first, second}, {{"axis", int64_t{-1}}});
}

/// Returns 0 where a position attends, a very low number elsewhere; (T,T).
std::string causal_mask(const LayerExport& e) {
  const int64_t positions = e.in()[0];
  std::vector<float> mask;
  for (int64_t i = 0; i < positions; ++i) {
    for (int64_t j = 0; j < positions; ++j) mask.push_back(j <= i ? 0 : kUnseen);
  }
  return e.graph.add_floats(e.layer.name, {positions, positions}, mask);
}

std::string export_attention(const LayerExport& e) {
  const Layer& layer = e.layer;
  const int64_t positions = e.in()[0], size = layer.shape[1] / layer.heads;
  const int64_t group = layer.heads / layer.kv_heads;
  /// Returns (batch, kv_heads, heads per kv_head, T, D) from columns of the input.
  const auto heads_at = [&](int64_t column, int64_t heads, int64_t of_each) {
    const auto integer = [&](int64_t n) { return e.graph.add_integers(layer.name, {n}); };
    const std::string columns = e.add("Slice", {e.inputs[0], integer(column * size),
                                                integer((column + heads) * size), integer(-1)});
    const std::string split = e.reshape(columns, {-1, positions, layer.kv_heads, of_each, size});
    return e.add("Transpose", {split}, {{"perm", std::vector<int64_t>{0, 2, 3, 1, 4}}});
  };
  std::string queries = heads_at(0, layer.heads, group);
  std::string keys = heads_at(layer.heads, layer.kv_heads, 1);
  const std::string values = heads_at(layer.heads + layer.kv_heads, layer.kv_heads, 1);
  if (layer.rotary) {
    queries = rotated(e, queries, size);
    keys = rotated(e, keys, size);
  }
  const std::string turned =
      e.add("Transpose", {keys}, {{"perm", std::vector<int64_t>{0, 1, 2, 4, 3}}});
  const std::string products = e.add("MatMul", {queries, turned});
  std::string scores = e.add("Mul", {products, e.number(1 / std::sqrt(float(size)))});
  if (layer.causal) scores = e.add("Add", {scores, causal_mask(e)});
  if (e.text.given()) {
    const std::string real = e.reshape(e.text.real, {-1, 1, 1, 1, positions});
    scores = e.add("Where", {real, scores, e.number(kUnseen)});
  }
  const std::string shares = e.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const std::string sums = e.add("MatMul", {shares, values});
  const std::string back =
      e.add("Transpose", {sums}, {{"perm", std::vector<int64_t>{0, 3, 1, 2, 4}}});
  return e.reshape(back, {-1, positions, layer.shape[1]});
}

std::string export_batch_norm(const LayerExport& e) {
  return e.add("BatchNormalization",
               {e.inputs[0], e.weight(), e.bias(), e.layer.name + ".running_mean",
                e.layer.name + ".running_var"},
               {{"epsilon", kEpsilon}});
}

/// Exports group_norm as an instance normalisation of the groups, followed by each channel's weight
/// and bias.
std::string export_group_norm(const LayerExport& e) {
  const int64_t channels = e.in()[0], groups = e.layer.groups;
  const std::vector<float> ones(size_t(groups), 1), zeros(size_t(groups), 0);
  const std::string grouped = e.reshape(e.inputs[0], {0, groups, -1});
  const std::string normalized = e.add("InstanceNormalization",
                                       {grouped, e.graph.add_floats(e.layer.name, {groups}, ones),
                                        e.graph.add_floats(e.layer.name, {groups}, zeros)},
                                       {{"epsilon", kEpsilon}});
  const std::string maps = e.reshape(normalized, {-1, channels, e.in()[1], e.in()[2]});
  const std::string scaled = e.add("Mul", {maps, e.reshape(e.weight(), {channels, 1, 1})});
  return e.add("Add", {scaled, e.reshape(e.bias(), {channels, 1, 1})});
}

std::string export_layer_norm(const LayerExport& e) {
  return product_with_bias(e, "LayerNormalization", {{"axis", int64_t{-1}}, {"epsilon", kEpsilon}});
}

std::string export_rms_norm(const LayerExport& e) {
  const std::string squares = e.add("Mul", {e.inputs[0], e.inputs[0]});
  const std::string mean = e.add("ReduceMean", {squares}, {{"axes", std::vector<int64_t>{-1}}});
  const std::string root = e.add("Sqrt", {e.add("Add", {mean, e.number(kEpsilon)})});
  return e.add("Mul", {e.add("Div", {e.inputs[0], root}), e.weight()});
}

std::string export_relu(const LayerExport& e) { return e.add("Relu", {e.inputs[0]}); }

/// x * (1 + erf(x / sqrt(2))) / 2
std::string export_gelu(const LayerExport& e) {
  const std::string erf =
      e.add("Erf", {e.add("Mul", {e.inputs[0], e.number(float(std::sqrt(0.5)))})});
  const std::string product = e.add("Mul", {e.inputs[0], e.add("Add", {erf, e.number(1)})});
  return e.add("Mul", {product, e.number(0.5f)});
}

std::string export_sigmoid(const LayerExport& e) { return e.add("Sigmoid", {e.inputs[0]}); }

std::string export_silu(const LayerExport& e) {
  return e.add("Mul", {e.inputs[0], e.add("Sigmoid", {e.inputs[0]})});
}

std::string export_tanh(const LayerExport& e) { return e.add("Tanh", {e.inputs[0]}); }

std::string export_relu6(const LayerExport& e) {
  return e.add("Clip", {e.inputs[0], e.number(0), e.number(6)});
}

std::string export_leaky_relu(const LayerExport& e) {
  return e.add("LeakyRelu", {e.inputs[0]}, {{"alpha", float(e.layer.slope)}});
}

std::string export_softmax(const LayerExport& e) {
  return e.add("Softmax", {e.inputs[0]}, {{"axis", int64_t{-1}}});
}

/// No operation outside of training.
std::string export_dropout(const LayerExport& e) { return e.inputs[0]; }
std::string export_stochastic_depth(const LayerExport& e) { return e.inputs[0]; }

OnnxAttributes window(const Layer& layer) {
  return {
      {"kernel_shape", both(layer.kernel)}, {"strides", both(layer.stride)}, {"pads", pads(layer)}};
}

std::string export_max_pool(const LayerExport& e) {
  return e.add("MaxPool", {e.inputs[0]}, window(e.layer));
}

std::string export_avg_pool(const LayerExport& e) {
  OnnxAttributes attributes = window(e.layer);
  attributes["count_include_pad"] = int64_t{1};
  return e.add("AveragePool", {e.inputs[0]}, attributes);
}

std::string export_global_avg_pool(const LayerExport& e) {
  return e.add("Flatten", {e.add("GlobalAveragePool", {e.inputs[0]})});
}

/// The sum over each text's tokens, divided by their number; or the mean over all positions.
std::string export_mean_pool(const LayerExport& e) {
  if (!e.text.given()) {
    return e.add("ReduceMean", {e.inputs[0]},
                 {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  }
  const std::string real = e.reshape(e.text.real, {-1, e.in()[0], 1});
  const std::string kept = e.add("Where", {real, e.inputs[0], e.number(0)});
  const std::string sum = e.add("ReduceSum", {kept, e.graph.add_integers(e.layer.name, {1})},
                                {{"keepdims", int64_t{0}}});
  const std::string count = e.add("Cast", {e.text.lengths}, {{"to", int64_t(OnnxType::Float)}});
  return e.add("Div", {sum, e.reshape(count, {-1, 1})});
}

/// Returns (size, places): the weight of each of `size` numbers in each mean. The windows are those
/// of PyTorch's AdaptiveAvgPool2d.
std::vector<float> adaptive_shares(int64_t size, int64_t places) {
  std::vector<float> all(size_t(size * places), 0);
  for (int64_t place = 0; place < places; ++place) {
    const int64_t begin = place * size / places;
    const int64_t end = ((place + 1) * size + places - 1) / places;
    for (int64_t i = begin; i < end; ++i) {
      all[size_t(i * places + place)] = 1 / float(end - begin);
    }
  }
  return all;
}

/// Multiplies by the weights along the rows and then, transposed, along the columns.
std::string export_adaptive_avg_pool(const LayerExport& e) {
  const int64_t height = e.in()[1], width = e.in()[2];
  const Extent& size = e.layer.size;
  const OnnxAttributes turn = {{"perm", std::vector<int64_t>{0, 1, 3, 2}}};
  const std::string across =
      e.add("MatMul", {e.inputs[0], e.graph.add_floats(e.layer.name, {width, size.width},
                                                       adaptive_shares(width, size.width))});
  const std::string down =
      e.add("MatMul", {e.add("Transpose", {across}, turn),
                       e.graph.add_floats(e.layer.name, {height, size.height},
                                          adaptive_shares(height, size.height))});
  return e.add("Transpose", {down}, turn);
}

std::string export_upsample(const LayerExport& e) {
  const float scale = float(e.layer.scale);
  const std::vector<float> scales = {1, 1, scale, scale};
  return e.add("Resize", {e.inputs[0], "", e.graph.add_floats(e.layer.name, {4}, scales)},
               {{"mode", "nearest"},
                {"nearest_mode", "floor"},
                {"coordinate_transformation_mode", "asymmetric"}});
}

std::string export_flatten(const LayerExport& e) { return e.add("Flatten", {e.inputs[0]}); }

std::string export_add(const LayerExport& e) { return e.add("Add", {e.inputs[0], e.inputs[1]}); }

/// Concatenates the channels of maps, and the last dimension of other values.
std::string export_concat(const LayerExport& e) {
  const int64_t axis = e.in().size() == 3 ? 1 : -1;
  return e.add("Concat", {e.inputs.begin(), e.inputs.end()}, {{"axis", axis}});
}

/// Adds the lengths if the network has a `mean_pool` and learns classes of texts.
TextLengths add_text_lengths(OnnxGraph& graph, const Model& model) {
  const bool has_pool = std::ranges::any_of(
      model.layers, [](const Layer& layer) { return layer.kind == LayerKind::MeanPool; });
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy;
  if (!has_pool || !has_classes || !model.takes_tokens()) return {};
  TextLengths text;
  text.lengths = graph.add_input({"lengths", OnnxType::Int64, {}});
  std::vector<int64_t> places(size_t(model.input[0]));
  std::iota(places.begin(), places.end(), 0);
  const std::string column = graph.add(
      "lengths.column", "Reshape", {text.lengths, graph.add_integers("lengths.shape", {-1, 1})});
  text.real =
      graph.add("lengths.real", "Less", {graph.add_integers("lengths.places", places), column});
  return text;
}

/// Adds the nodes that compute `layer` from the values `inputs`, and returns the result's name. The
/// graph must have the layer's weights under their own names.
std::string add_layer(OnnxGraph& graph, const Model& model, const Layer& layer,
                      std::span<const std::string> inputs, const TextLengths& text) {
  const LayerExport e = {graph, model, layer, inputs, text};
  switch (layer.kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return export_##word(e);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return {};
}

std::vector<uint64_t> unsigned_shape(const std::vector<int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

void add_weights(OnnxGraph& graph, const Model& model, const Safetensors& weights) {
  for (const Layer& layer : model.layers) {
    for (const LayerTensor& expected : tensors_of(layer, model.shape_of(layer.inputs[0]))) {
      const TensorView& tensor = weights.at(layer.name + "." + expected.name);
      if (tensor.shape != unsigned_shape(expected.shape) || tensor.dtype != DType::F32) {
        throw Error(Errc::InvalidInput, "tensor '" + tensor.name +
                                            "' has another shape or type than the model declares");
      }
      graph.add_weight(tensor);
    }
  }
}

/// Returns one number per element of the input's first dimension: that of its channel, if features
/// are the pixels of several channels.
std::vector<float> spread(const std::vector<float>& per_channel, int64_t size) {
  if (per_channel.empty() || size % int64_t(per_channel.size()) != 0) {
    throw Error(Errc::InvalidInput, "the normalisation has " + std::to_string(per_channel.size()) +
                                        " channels, but the model's input has " +
                                        std::to_string(size));
  }
  const int64_t pixels = size / int64_t(per_channel.size());
  std::vector<float> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(per_channel[size_t(i / pixels)]);
  return all;
}

/// Adds input * scale + shift.
std::string add_normalization(OnnxGraph& graph, const Model& model, const InputScale& input) {
  std::vector<int64_t> shape(model.input.size(), 1);
  shape[0] = model.input[0];
  const std::string scale =
      graph.add_floats("input.scale", shape, spread(input.scale, model.input[0]));
  const std::string shift =
      graph.add_floats("input.shift", shape, spread(input.shift, model.input[0]));
  const std::string scaled = graph.add("input.scaled", "Mul", {"input", scale});
  return graph.add("input.normalized", "Add", {scaled, shift});
}

}  // namespace

void write_onnx(const std::filesystem::path& path, const Model& model, const Safetensors& weights,
                const InputScale& input, const SafetensorsMetadata& metadata) {
  const bool tokens = model.takes_tokens();
  OnnxGraph graph({"input", tokens ? OnnxType::Int64 : OnnxType::Float, model.input},
                  {"scores", OnnxType::Float, model.layers.back().shape});
  add_weights(graph, model, weights);
  const TextLengths text = add_text_lengths(graph, model);
  const std::string images = tokens ? "input" : add_normalization(graph, model, input);
  std::vector<std::string> results;
  for (const Layer& layer : model.layers) {
    std::vector<std::string> inputs;
    for (const int i : layer.inputs) inputs.push_back(i == kImages ? images : results[size_t(i)]);
    results.push_back(add_layer(graph, model, layer, inputs, text));
  }
  write_output(path, graph.finish(model.name, results.back(), metadata));
}

}  // namespace dlflow::runtime
