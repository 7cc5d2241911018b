#include <algorithm>

#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

/// Whether the input is a layer's result, not the network's input or an intermediate value.
bool is_of_layer(NodeReader& node, size_t input) {
  return node.is(Kind::Layer, input) && node.value(input).layer != kImages;
}

/// The effect of a constant on a result: each number times `scale`, plus `shift`.
struct Change {
  std::vector<float> scale = {1};
  std::vector<float> shift = {0};
};

std::vector<float> combine(const std::vector<float>& a, const std::vector<float>& b,
                           float (*with)(float, float)) {
  std::vector<float> result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = with(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  }
  return result;
}

float plus(float a, float b) { return a + b; }
float times(float a, float b) { return a * b; }

/// Returns the numbers of `constant` for the input's channels. Refuses values other than the input.
std::vector<float> channels_of(NodeReader& node, size_t value, size_t constant) {
  const GraphValue& input = node.value(value);
  const bool is_input =
      input.kind == Kind::Scaled || (input.kind == Kind::Layer && input.layer == kImages);
  const auto numbers = per_channel(node.constant(constant), node.network().shape_of(kImages));
  if (!is_input || !numbers) refuse("dlflow has no layer that computes with such a constant");
  return *numbers;
}

/// Adds `by` to the normalisation of the input.
void change(NodeReader& node, size_t value, const Change& by) {
  GraphValue changed = node.value(value);
  if (changed.kind == Kind::Layer) changed.scale = {1}, changed.shift = {0};
  changed.kind = Kind::Scaled;
  changed.scale = combine(changed.scale, by.scale, times);
  changed.shift = combine(combine(changed.shift, by.scale, times), by.shift, plus);
  node.give(std::move(changed));
}

bool add_positions(NodeReader& node, size_t value, size_t constant) {
  const int before = node.layer(value);
  const TensorShape shape = node.shape(value);
  if (shape.size() != 2) return false;
  const OnnxTensor& table = node.constant(constant);
  const std::vector<int64_t>& sizes = table.shape;
  const bool fits = sizes == shape || (sizes.size() == 3 && sizes[0] == 1 && sizes[1] == shape[0] &&
                                       sizes[2] == shape[1]);
  if (!fits) return false;
  ImportedTensor weights = node.weights(constant);
  weights.shape = shape;
  const int index = node.add({.kind = LayerKind::Positions}, {before}, constant);
  node.network().set(index, "weight", std::move(weights));
  return true;
}

void add_constant(NodeReader& node, size_t value, size_t constant) {
  if (is_of_layer(node, value) &&
      (add_bias(node, value, constant) || add_positions(node, value, constant)))
    return;
  change(node, value, {.shift = channels_of(node, value, constant)});
}

/// One of the two must be the previous layer's result, as in all layers with two inputs.
void add_results(NodeReader& node) {
  int first = node.layer(0), second = node.layer(1);
  if (node.shape(0) != node.shape(1))
    refuse("dlflow's add needs two equal shapes, but this one gets " + to_string(node.shape(0)) +
           " and " + to_string(node.shape(1)));
  if (second > first) std::swap(first, second);
  if (first != node.network().last())
    refuse("it adds the results of two earlier layers; one must be that of the layer before");
  node.add({.kind = LayerKind::Add}, {first, second});
}

}  // namespace

std::optional<std::vector<float>> per_channel(const OnnxTensor& constant,
                                              const TensorShape& shape) {
  if (constant.size() == 1) {
    return std::vector<float>{number_of(constant)};
  }
  std::vector<int64_t> sizes = constant.shape;
  const bool has_batch = sizes.size() == shape.size() + 1 && sizes[0] == 1;
  if (has_batch) sizes.erase(sizes.begin());
  const std::vector<int64_t> expected =
      shape.size() == 3 ? std::vector<int64_t>{shape[0], 1, 1} : std::vector<int64_t>{shape.back()};
  const bool fits = sizes == expected && !constant.floats.empty();
  return fits ? std::optional(constant.floats) : std::nullopt;
}

void read_add(NodeReader& node) {
  if (node.is_constant(1)) return add_constant(node, 0, 1);
  if (node.is_constant(0)) return add_constant(node, 1, 0);
  add_results(node);
}

void read_sub(NodeReader& node) {
  if (!node.is_constant(1)) refuse("dlflow has no layer that subtracts");
  change(node, 0, {.shift = combine(channels_of(node, 0, 1), {-1}, times)});
}

void read_mul(NodeReader& node) {
  if (multiply_sizes(node)) return;
  if (node.is_constant(1)) return change(node, 0, {.scale = channels_of(node, 0, 1)});
  if (node.is_constant(0)) return change(node, 1, {.scale = channels_of(node, 1, 0)});
  if (!multiply_sigmoid(node, 0, 1) && !multiply_sigmoid(node, 1, 0))
    refuse("dlflow multiplies results of layers only in silu");
}

void read_div(NodeReader& node) {
  if (!node.is_constant(1)) refuse("dlflow has no layer that divides");
  std::vector<float> scale = channels_of(node, 0, 1);
  for (float& number : scale) number = 1 / number;
  change(node, 0, {.scale = std::move(scale)});
}

}  // namespace dlflow::runtime
