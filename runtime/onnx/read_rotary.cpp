#include <algorithm>
#include <cmath>

#include "runtime/onnx/operations.h"

/// Rotation of heads by position: (a, b) becomes (a * cos - b * sin, b * cos + a * sin), where a
/// and b are both halves of a head, and the angles grow with the position.
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

/// Whether `constant` is (T, half) of cosines or sines of the angles of dlflow's rotary positions.
bool is_table(NodeReader& node, size_t constant, int64_t positions, int64_t half,
              double (*function)(double)) {
  const OnnxTensor& table = node.constant(constant);
  const size_t rank = table.shape.size();
  if (rank < 2 || table.shape[rank - 1] != half || table.shape[rank - 2] != positions ||
      int64_t(table.floats.size()) != positions * half)
    return false;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = double(t) * std::pow(10000.0, -double(i) / double(half));
      if (!(std::abs(double(table.floats[size_t(t * half + i)]) - function(angle)) < 1e-4))
        return false;
    }
  }
  return true;
}

double cosine(double angle) { return std::cos(angle); }
double sine(double angle) { return std::sin(angle); }

/// `second` is the other half of the heads that `first` is of.
bool are_halves(const View& first, const View& second) {
  View moved = first;
  moved.offset += size_of(first.dimensions.back());
  return moved == second;
}

void give_turned(NodeReader& node, Kind kind, const View& view) {
  node.give({.kind = kind, .layer = view.layer, .view = std::make_shared<View>(view)});
}

}  // namespace

bool rotate_half(NodeReader& node, size_t value, size_t constant) {
  if (!node.is(Kind::View, value)) return false;
  const View view = *node.value(value).view;
  const auto& dimensions = view.dimensions;
  if (dimensions.size() < 2 || view.rotated != 0) return false;
  const TensorShape& shape = node.network().shape_of(view.layer);
  const int64_t half = size_of(dimensions.back());
  if (dimensions[dimensions.size() - 2] != simplified({{shape[0], shape[1]}})) return false;
  if (dimensions.back() != simplified({{half, 1}})) return false;
  const bool is_cosine = is_table(node, constant, shape[0], half, cosine);
  if (!is_cosine && !is_table(node, constant, shape[0], half, sine)) return false;
  give_turned(node, is_cosine ? Kind::TimesCosine : Kind::TimesSine, view);
  return true;
}

bool combine_halves(NodeReader& node) {
  const bool is_sum = node.operation() == "Add";
  if (!is_sum && node.is(Kind::TimesCosine, 0) && node.is(Kind::TimesSine, 1)) {
    const View first = *node.value(0).view, second = *node.value(1).view;
    if (!are_halves(first, second)) return false;
    give_turned(node, Kind::FirstRotated, first);
    return true;
  }
  if (!is_sum) return false;
  for (const auto& [cos, sin] : {std::pair{size_t{0}, size_t{1}}, {1, 0}}) {
    if (!node.is(Kind::TimesCosine, cos) || !node.is(Kind::TimesSine, sin)) continue;
    const View first = *node.value(sin).view, second = *node.value(cos).view;
    if (!are_halves(first, second)) return false;
    give_turned(node, Kind::SecondRotated, first);
    return true;
  }
  return false;
}

bool concat_halves(NodeReader& node) {
  if (node.num_inputs() != 2 || !node.is(Kind::FirstRotated, 0) || !node.is(Kind::SecondRotated, 1))
    return false;
  View heads = *node.value(0).view;
  const auto rank = int64_t(heads.dimensions.size());
  const int64_t axis = node.integer("axis", 1);
  if (heads != *node.value(1).view || (axis != -1 && axis != rank - 1)) return false;
  const int64_t size = 2 * size_of(heads.dimensions.back());
  heads.dimensions.back() = simplified({{size, 1}});
  heads.rotated = size;
  give_view(node, std::move(heads));
  return true;
}

}  // namespace dlflow::runtime
