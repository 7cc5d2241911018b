#include <algorithm>
#include <cmath>

#include "runtime/onnx/operations.h"

/// Rotation of heads by position: (a, b) becomes (a * cos - b * sin, b * cos + a * sin), where a
/// and b are both halves of a head, and the angles grow with the position. Files compute it half by
/// half, as dlflow's do, or of whole heads, as those of LLaMA do: (a, b) * cos + (-b, a) * sin.
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

/// Whether `constant` is (T, columns) of cosines or sines of the angles of dlflow's rotary
/// positions, of which there are `half`; with twice as many columns, they are there twice.
bool is_table(NodeReader& node, size_t constant, int64_t positions, int64_t columns, int64_t half,
              double (*function)(double)) {
  const OnnxTensor& table = node.constant(constant);
  const size_t rank = table.shape.size();
  if (rank < 2 || table.shape[rank - 1] != columns || table.shape[rank - 2] != positions ||
      int64_t(table.floats.size()) != positions * columns)
    return false;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t i = 0; i < columns; ++i) {
      const double angle = double(t) * std::pow(10000.0, -double(i % half) / double(half));
      if (!(std::abs(double(table.floats[size_t(t * columns + i)]) - function(angle)) < 1e-4))
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

/// Whether its last two dimensions are all positions and numbers side by side.
bool has_positions(NodeReader& node, const View& view) {
  const auto& dimensions = view.dimensions;
  if (dimensions.size() < 2 || view.rotated != 0) return false;
  const TensorShape& shape = node.network().shape_of(view.layer);
  return dimensions[dimensions.size() - 2] == simplified({{shape[0], shape[1]}}) &&
         dimensions.back() == simplified({{size_of(dimensions.back()), 1}});
}

void give_turned(NodeReader& node, Kind kind, const View& view) {
  node.give({.kind = kind, .layer = view.layer, .view = std::make_shared<View>(view)});
}

}  // namespace

bool rotate_half(NodeReader& node, size_t value, size_t constant) {
  const bool is_swapped = node.is(Kind::Swapped, value);
  if (!is_swapped && !node.is(Kind::View, value)) return false;
  const View view = *node.value(value).view;
  if (!has_positions(node, view)) return false;
  const int64_t positions = node.network().shape_of(view.layer)[0];
  const int64_t size = size_of(view.dimensions.back());
  const auto is = [&](double (*function)(double), int64_t half) {
    return is_table(node, constant, positions, size, half, function);
  };
  if (is_swapped) {
    if (!is(sine, size / 2)) return false;
    give_turned(node, Kind::SwappedBySine, view);
    return true;
  }
  const bool is_cosine = is(cosine, size) || (size % 2 == 0 && is(cosine, size / 2));
  if (!is_cosine && !is(sine, size)) return false;
  give_turned(node, is_cosine ? Kind::TimesCosine : Kind::TimesSine, view);
  return true;
}

void read_neg(NodeReader& node) {
  if (!is_sequence(node, 0)) refuse("dlflow has it only to rotate heads by their position");
  give_turned(node, Kind::Negated, view_at(node, 0));
}

bool swap_halves(NodeReader& node) {
  if (node.num_inputs() != 2 || !node.is(Kind::Negated, 0) || !node.is(Kind::View, 1)) return false;
  const View second = *node.value(0).view, first = *node.value(1).view;
  if (!has_positions(node, first) || !are_halves(first, second)) return false;
  const auto rank = int64_t(first.dimensions.size());
  const int64_t axis = node.integer("axis", 1);
  if (axis != -1 && axis != rank - 1) return false;
  View heads = first;
  heads.dimensions.back() = simplified({{2 * size_of(first.dimensions.back()), 1}});
  give_turned(node, Kind::Swapped, heads);
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
    if (node.is(Kind::TimesCosine, cos) && node.is(Kind::SwappedBySine, sin) &&
        *node.value(cos).view == *node.value(sin).view) {
      View heads = *node.value(cos).view;
      heads.rotated = size_of(heads.dimensions.back());
      give_view(node, std::move(heads));
      return true;
    }
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
