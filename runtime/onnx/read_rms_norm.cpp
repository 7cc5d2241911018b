#include <algorithm>

#include "runtime/onnx/operations.h"

/// x / sqrt(mean(x * x) + epsilon) * weight, which files put together from five to seven nodes.
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

int add_rms_norm(NodeReader& node, int input, std::optional<size_t> weights = {}) {
  Layer layer;
  layer.kind = LayerKind::RmsNorm;
  const int index = node.add(std::move(layer), {input}, weights);
  const int64_t features = node.network().at(index).shape.back();
  node.network().set(index, "weight", {{features}, std::vector<float>(size_t(features), 1)});
  return index;
}

/// Whether `root` is that of the mean square of `value`.
bool is_root_of(NodeReader& node, size_t value, size_t root, Kind kind) {
  return node.is(kind, root) && node.is(Kind::Layer, value) &&
         node.value(value).layer == node.value(root).layer;
}

}  // namespace

void read_rms_normalization(NodeReader& node) {
  require_epsilon(node.number("epsilon", kLayerEpsilon));
  require_last_dimension(node.shape(0), {node.integer("axis", -1)}, "rms_norm");
  const int64_t features = node.shape(0).back();
  ImportedTensor weight = node.weights(1);
  require_size(weight, features);
  node.network().set(add_rms_norm(node, node.layer(0), 1), "weight", std::move(weight));
}

void read_pow(NodeReader& node) {
  if (compute_constants(node)) return;
  const OnnxTensor& exponent = node.constant(1);
  if (is_number(exponent, 2)) return node.give({.kind = Kind::Squares, .layer = node.layer(0)});
  if (node.is(Kind::ShiftedMean, 0) && is_number(exponent, -0.5f))
    return node.give({.kind = Kind::InverseRoot, .layer = node.value(0).layer});
  if (node.is(Kind::ShiftedMean, 0) && is_number(exponent, 0.5f))
    return node.give({.kind = Kind::RootedMean, .layer = node.value(0).layer});
  refuse("dlflow has powers only as parts of rms_norm");
}

void read_sqrt(NodeReader& node) {
  if (node.is_constant(0)) return root_of_constant(node);
  if (!node.is(Kind::ShiftedMean, 0)) refuse("dlflow has it only as a part of rms_norm");
  node.give({.kind = Kind::RootedMean, .layer = node.value(0).layer});
}

void read_reciprocal(NodeReader& node) {
  if (!node.is(Kind::RootedMean, 0)) refuse("dlflow has it only as a part of rms_norm");
  node.give({.kind = Kind::InverseRoot, .layer = node.value(0).layer});
}

bool average_squares(NodeReader& node, const std::vector<int64_t>& axes) {
  if (!node.is(Kind::Squares, 0)) return false;
  const int layer = node.value(0).layer;
  require_last_dimension(node.network().shape_of(layer), axes, "rms_norm");
  if (node.integer("keepdims", 1) == 0)
    refuse("rms_norm of dlflow is along the last dimension of (B,F) or (B,T,F)");
  node.give({.kind = Kind::MeanSquare, .layer = layer});
  return true;
}

bool shift_mean_square(NodeReader& node, size_t value, size_t constant) {
  if (!node.is(Kind::MeanSquare, value)) return false;
  const OnnxTensor& epsilon = node.constant(constant);
  if (epsilon.size() != 1) refuse("the epsilon of rms_norm is one number");
  require_epsilon(number_of(epsilon));
  node.give({.kind = Kind::ShiftedMean, .layer = node.value(value).layer});
  return true;
}

bool invert_root(NodeReader& node) {
  if (!node.is(Kind::RootedMean, 1) || !is_number(node.constant(0), 1)) return false;
  node.give({.kind = Kind::InverseRoot, .layer = node.value(1).layer});
  return true;
}

bool divide_by_root(NodeReader& node) {
  if (!is_root_of(node, 0, 1, Kind::RootedMean)) return false;
  add_rms_norm(node, node.layer(0));
  return true;
}

bool multiply_rms_norm(NodeReader& node, size_t a, size_t b) {
  if (is_root_of(node, a, b, Kind::InverseRoot)) {
    add_rms_norm(node, node.layer(a));
    return true;
  }
  if (!node.is(Kind::Layer, a) || !node.is(Kind::Layer, b)) return false;
  if (node.value(a).layer != node.value(b).layer) return false;
  node.give({.kind = Kind::Squares, .layer = node.layer(a)});
  return true;
}

bool complete_rms_norm(NodeReader& node, size_t layer, size_t constant) {
  const int index = node.layer(layer);
  if (!node.is_only_reader_of_layer(layer)) return false;
  const Layer& before = node.network().at(index);
  if (before.kind != LayerKind::RmsNorm) return false;
  const auto numbers = per_channel(node.constant(constant), before.shape);
  ImportedTensor& own = node.network().tensor(index, "weight");
  const bool is_set = std::ranges::any_of(own.numbers, [](float number) { return number != 1; });
  if (!numbers || numbers->size() != own.numbers.size() || is_set) return false;
  own.numbers = *numbers;
  node.call(index, constant);
  node.give_layer(index);
  return true;
}

}  // namespace dlflow::runtime
