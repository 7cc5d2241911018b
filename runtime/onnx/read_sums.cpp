#include <algorithm>

#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

bool is_scalable(const GraphValue& value) {
  return value.kind == Kind::Layer || value.kind == Kind::Scaled;
}

/// Rather than the input, or something on the way to a layer.
bool is_of_layer(NodeReader& node, size_t input) {
  return node.is(Kind::Layer, input) && node.value(input).layer != kImages;
}

/// What a constant does to a result: each number times `scale`, plus `shift`.
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

/// Each number of `constant`, per channel. Refuses one of another shape.
std::vector<float> channels_of(NodeReader& node, size_t value, size_t constant) {
  const auto numbers =
      per_channel(node.constant(constant), node.network().shape_of(node.value(value).layer));
  if (!numbers) refuse("dlflow has no layer that computes with such a constant");
  return *numbers;
}

/// Of the input it is its normalisation; of another value it may be a part of GELU.
void change(NodeReader& node, size_t value, const Change& by) {
  GraphValue changed = node.value(value);
  if (!is_scalable(changed)) refuse("dlflow has no layer that computes with a constant");
  if (changed.kind == Kind::Layer) changed.scale = {1}, changed.shift = {0};
  changed.kind = Kind::Scaled;
  changed.scale = combine(changed.scale, by.scale, times);
  changed.shift = combine(combine(changed.shift, by.scale, times), by.shift, plus);
  node.give(std::move(changed));
}

bool add_positions(NodeReader& node, size_t value, size_t constant) {
  const int before = node.layer(value);
  const TensorShape shape = node.shape(value);
  const OnnxTensor& table = node.constant(constant);
  const std::vector<int64_t>& sizes = table.shape;
  const bool fits = sizes == shape || (sizes.size() == 3 && sizes[0] == 1 && sizes[1] == shape[0] &&
                                       sizes[2] == shape[1]);
  if (shape.size() != 2 || !fits) return false;
  ImportedTensor weights = node.weights(constant);
  weights.shape = shape;
  Layer layer;
  layer.kind = LayerKind::Positions;
  const int index = node.add(std::move(layer), {before}, constant);
  node.network().set(index, "weight", std::move(weights));
  return true;
}

void add_constant(NodeReader& node, size_t value, size_t constant) {
  if (add_to_gelu(node, value, constant) || shift_mean_square(node, value, constant)) return;
  if (add_mask(node, value, constant)) return;
  if (node.is(Kind::View, value) && add_bias(node, value, constant)) return;
  if (is_of_layer(node, value)) {
    if (add_bias(node, value, constant) || complete_group_norm(node, value, constant, "bias") ||
        add_positions(node, value, constant))
      return;
  }
  change(node, value, {.shift = channels_of(node, value, constant)});
}

void multiply_constant(NodeReader& node, size_t value, size_t constant) {
  if (multiply_gelu(node, value, constant) || rotate_half(node, value, constant)) return;
  const OnnxTensor& factor = node.constant(constant);
  if (factor.size() == 1 && scale_scores(node, value, number_of(factor))) return;
  if (is_of_layer(node, value) && (complete_group_norm(node, value, constant, "weight") ||
                                   complete_rms_norm(node, value, constant)))
    return;
  change(node, value, {.scale = channels_of(node, value, constant)});
}

/// Layers that read two values read the one before them.
void add_results(NodeReader& node) {
  int first = node.layer(0), second = node.layer(1);
  if (node.shape(0) != node.shape(1))
    refuse("add of dlflow wants two equal shapes, this gets " + to_string(node.shape(0)) + " and " +
           to_string(node.shape(1)));
  if (second > first) std::swap(first, second);
  if (first != node.network().last())
    refuse("it adds the results of two earlier layers; one must be that of the layer before");
  Layer layer;
  layer.kind = LayerKind::Add;
  node.add(std::move(layer), {first, second});
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
  if (compute_constants(node) || combine_halves(node)) return;
  if (node.is_constant(1)) return add_constant(node, 0, 1);
  if (node.is_constant(0)) return add_constant(node, 1, 0);
  add_results(node);
}

void read_sub(NodeReader& node) {
  if (compute_constants(node) || combine_halves(node)) return;
  if (!node.is_constant(1)) refuse("dlflow has no layer that subtracts");
  change(node, 0, {.shift = combine(channels_of(node, 0, 1), {-1}, times)});
}

void read_mul(NodeReader& node) {
  if (compute_constants(node)) return;
  if (node.is_constant(1)) return multiply_constant(node, 0, 1);
  if (node.is_constant(0)) return multiply_constant(node, 1, 0);
  for (const auto& [a, b] : {std::pair{size_t{0}, size_t{1}}, {1, 0}}) {
    if (multiply_activations(node, a, b) || multiply_rms_norm(node, a, b)) return;
  }
  refuse("dlflow multiplies results of layers in silu, gelu and rms_norm alone");
}

void read_div(NodeReader& node) {
  if (compute_constants(node) || (node.is_constant(0) && invert_root(node))) return;
  if (divide_by_root(node) || divide_by_lengths(node)) return;
  if (!node.is_constant(1)) refuse("dlflow has no layer that divides");
  const OnnxTensor& divisor = node.constant(1);
  if (divisor.size() == 1 && scale_scores(node, 0, 1 / number_of(divisor))) return;
  std::vector<float> scale = channels_of(node, 0, 1);
  for (float& number : scale) number = 1 / number;
  change(node, 0, {.scale = std::move(scale)});
}

}  // namespace dlflow::runtime
