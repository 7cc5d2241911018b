#include <algorithm>

#include "base/text.h"
#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

Extent extent(const std::vector<int64_t>& sizes, int64_t usual) {
  if (sizes.empty()) return usual;
  if (sizes.size() != 2) refuse("dlflow has only convolutions in two dimensions");
  check_extent(sizes);
  return {sizes[0], sizes[1]};
}

/// Returns the zeros on each side of a map. If the file requests it, as many as make the result as
/// large as the map divided by the stride.
Extent padding(const NodeReader& node, const Layer& layer, const TensorShape& in) {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = node.integers("pads");
  if (automatic == "VALID" || (automatic == "NOTSET" && pads.empty())) return 0;
  if (automatic == "NOTSET") {
    if (pads.size() != 4 || pads[0] != pads[2] || pads[1] != pads[3])
      refuse("it pads the sides of a map differently; dlflow has no such layer");
    check_extent(pads);
    return {pads[0], pads[1]};
  }
  const auto side = [](int64_t size, int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t places = (size + stride - 1) / stride;
    const int64_t needed = (places - 1) * stride + dilation * (kernel - 1) + 1;
    const int64_t all = std::max<int64_t>(0, needed - size);
    if (all % 2 != 0) refuse("it pads the sides of a map differently; dlflow has no such layer");
    return all / 2;
  };
  const Extent &kernel = layer.kernel, &stride = layer.stride, &dilation = layer.dilation;
  return {side(in[1], kernel.height, stride.height, dilation.height),
          side(in[2], kernel.width, stride.width, dilation.width)};
}

/// Returns a convolution, with the sizes that both kinds have.
Layer convolution(NodeReader& node, LayerKind kind, const std::vector<int64_t>& weights) {
  const Extent around = node.take_padding();
  const TensorShape& in = node.shape(0);
  if (weights.size() != 4 || in.size() != 3)
    refuse("dlflow has only convolutions in two dimensions");
  Layer layer = {.kind = kind, .kernel = {weights[2], weights[3]}};
  layer.stride = extent(node.integers("strides"), 1);
  layer.dilation = extent(node.integers("dilations"), 1);
  layer.groups = node.integer("group", 1);
  for (const Extent& sizes : {layer.kernel, layer.stride, layer.dilation}) {
    if (sizes.height < 1 || sizes.width < 1) refuse("its kernel, strides or dilations are below 1");
  }
  check_groups(layer.groups);
  layer.padding = padding(node, layer, in);
  if (around != Extent(0) && (layer.padding != Extent(0) || kind != LayerKind::Conv2d)) {
    refuse("both it and a node before it pad the map");
  }
  if (around != Extent(0)) layer.padding = around;
  layer.bias = node.has(2);
  return layer;
}

void add_product(NodeReader& node, Layer layer, ImportedTensor weights) {
  std::optional<ImportedTensor> bias;
  if (layer.bias) bias = node.weights(2);
  const int index = node.add(std::move(layer), {node.layer(0)}, 1);
  node.network().set(index, "weight", std::move(weights));
  if (bias) node.network().set(index, "bias", std::move(*bias));
}

/// Transposes (in,out) to (out,in).
ImportedTensor turned(const ImportedTensor& matrix) {
  return {{matrix.shape[1], matrix.shape[0]},
          transposed(matrix.numbers, size_t(matrix.shape[0]), size_t(matrix.shape[1]))};
}

/// Returns the constant as a bias of one number per feature, if it fits.
std::optional<ImportedTensor> bias_of(const OnnxTensor& constant, const TensorShape& shape) {
  const auto numbers = per_channel(constant, shape);
  if (!numbers) return {};
  const int64_t features = shape.size() == 3 ? shape[0] : shape.back();
  ImportedTensor bias{{features}, *numbers};
  if (bias.numbers.size() == 1) bias.numbers.resize(size_t(features), bias.numbers[0]);
  return bias;
}

/// Returns the embedding that has these weights and no tied layer yet. Exporters often store a tied
/// weight twice, once transposed.
int embedding_with(NetworkBuilder& network, const ImportedTensor& weights) {
  for (int i = 0; i <= network.last(); ++i) {
    if (network.at(i).kind != LayerKind::Embedding) continue;
    const ImportedTensor& own = network.tensor(i, "weight");
    if (own.shape != weights.shape || own.numbers != weights.numbers) continue;
    for (int j = i + 1; j <= network.last(); ++j) {
      if (network.at(j).tied == i) return kImages;
    }
    return i;
  }
  return kImages;
}

/// Adds a linear layer without bias. \param weights  (out,in)
int add_linear(NodeReader& node, ImportedTensor weights) {
  const TensorShape& in = node.shape(0);
  if (in.size() > 2)
    refuse("dlflow's linear layers read (B,F) or (B,T,F) only, but this one gets " + to_string(in));
  if (in.back() != weights.shape[1]) {
    refuse("its weights are for " + std::to_string(weights.shape[1]) + " features, but it gets " +
           std::to_string(in.back()));
  }
  const int tied = embedding_with(node.network(), weights);
  const bool is_tied = tied != kImages;
  if (!is_tied && node.shares(1)) refuse_shared(node.name_of(1));
  // Tied weights have the embedding's name.
  const auto weight = is_tied ? std::nullopt : std::optional(size_t{1});
  const int index =
      node.add({.kind = LayerKind::Linear, .units = weights.shape[0], .tied = tied, .bias = false},
               {node.layer(0)}, weight);
  if (!is_tied) {
    node.network().set(index, "weight", std::move(weights));
  } else if (!node.shares(1)) {
    node.note(
        "'" + escaped(node.result()) +
        "' has the numbers of the embedding as weights; the model trains them as one (tied).");
  }
  return index;
}

ImportedTensor matrix(NodeReader& node, size_t input) {
  ImportedTensor found = node.weights(input);
  if (found.shape.size() != 2) refuse("its weights are not a matrix");
  return found;
}

}  // namespace

void read_conv(NodeReader& node) {
  ImportedTensor weights = node.weights(1);
  Layer layer = convolution(node, LayerKind::Conv2d, weights.shape);
  layer.units = weights.shape[0];
  if (node.shape(0)[0] != weights.shape[1] * layer.groups) {
    refuse("its weights are for " + std::to_string(weights.shape[1] * layer.groups) +
           " channels, but it gets " + to_string(node.shape(0)));
  }
  add_product(node, std::move(layer), std::move(weights));
}

void read_conv_transpose(NodeReader& node) {
  ImportedTensor weights = node.weights(1);
  Layer layer = convolution(node, LayerKind::ConvTranspose2d, weights.shape);
  layer.units = weights.shape[1];
  for (const int64_t more : node.integers("output_padding")) {
    if (more != 0) refuse("dlflow's conv_transpose2d has no output_padding");
  }
  if (node.text("auto_pad", "NOTSET") != "NOTSET")
    refuse("its padding depends on the size of the map");
  if (!node.integers("output_shape").empty())
    refuse("dlflow's conv_transpose2d has no output_shape");
  if (layer.groups != 1 || layer.dilation != Extent(1))
    refuse("dlflow's conv_transpose2d has no groups or dilation");
  if (node.shape(0)[0] != weights.shape[0]) {
    refuse("its weights are for " + std::to_string(weights.shape[0]) + " channels, but it gets " +
           to_string(node.shape(0)));
  }
  add_product(node, std::move(layer), std::move(weights));
}

void read_gemm(NodeReader& node) {
  if (node.integer("transA", 0) != 0) refuse("it transposes what it reads");
  if (node.shape(0).size() != 1) refuse("it reads " + to_string(node.shape(0)) + ", not (B,F)");
  ImportedTensor weights = matrix(node, 1);
  if (node.integer("transB", 0) == 0) weights = turned(weights);
  for (float& weight : weights.numbers) weight *= node.number("alpha", 1);
  std::optional<ImportedTensor> bias;
  if (node.has(2)) {
    bias = bias_of(node.constant(2), {weights.shape[0]});
    if (!bias) refuse("its third input is not a bias");
    for (float& number : bias->numbers) number *= node.number("beta", 1);
  }
  const int index = add_linear(node, std::move(weights));
  if (!bias) return;
  node.network().at(index).bias = true;
  node.network().set(index, "bias", std::move(*bias));
}

void read_matmul(NodeReader& node) {
  if (!node.is_constant(1))
    refuse("its second input is a result of the network; attention is not read from ONNX files");
  add_linear(node, turned(matrix(node, 1)));
}

void read_gather(NodeReader& node) {
  if (node.is_constant(0) && node.is_constant(1)) {
    const std::vector<int64_t>& from = node.integers(0);
    OnnxTensor chosen{node.constant(1).shape, {}, {}};
    for (int64_t index : node.integers(1)) {
      if (index < 0) index += int64_t(from.size());
      if (index < 0 || index >= int64_t(from.size())) refuse("its index is outside of the list");
      chosen.integers.push_back(from[size_t(index)]);
    }
    return node.give_constant(std::move(chosen));
  }
  if (!node.is_constant(0) || node.integer("axis", 0) != 0)
    refuse("it chooses parts of a layer's result");
  ImportedTensor weights = matrix(node, 0);
  if (node.layer(1) != kImages) refuse("dlflow's embeddings read only the input");
  const int index = node.add(
      {.kind = LayerKind::Embedding, .units = weights.shape[1], .vocabulary = weights.shape[0]},
      {kImages}, 0);
  node.network().set(index, "weight", std::move(weights));
}

bool add_bias(NodeReader& node, size_t layer, size_t constant) {
  const int index = node.layer(layer);
  if (!node.is_only_reader_of_layer(layer)) return false;
  Layer& before = node.network().at(index);
  const bool has_place = before.kind == LayerKind::Conv2d ||
                         before.kind == LayerKind::ConvTranspose2d ||
                         before.kind == LayerKind::Linear;
  if (!has_place || before.bias) return false;
  auto bias = bias_of(node.constant(constant), before.shape);
  if (!bias) return false;
  before.bias = true;
  node.network().set(index, "bias", std::move(*bias));
  node.give_layer(index);
  return true;
}

}  // namespace dlflow::runtime
