#include <algorithm>
#include <numeric>

#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

/// The sizes of the parts that Split makes.
std::vector<int64_t> parts_of(NodeReader& node, int64_t size) {
  std::vector<int64_t> parts = node.has(1) ? node.integers(1) : node.integers("split");
  const auto count = int64_t(node.num_outputs());
  if (parts.empty()) {
    const int64_t each = (size + count - 1) / count;
    for (int64_t left = size; left > 0; left -= each) parts.push_back(std::min(left, each));
  }
  if (int64_t(parts.size()) != count) refuse("it has another number of parts than results");
  return parts;
}

/// One index, and whether its dimension stays.
std::pair<int64_t, bool> index_of(NodeReader& node) {
  const std::vector<int64_t>& indices = node.integers(1);
  if (indices.size() != 1 || node.constant(1).shape.size() > 1)
    refuse("it chooses several parts of a layer's result");
  return {indices[0], node.constant(1).shape.size() == 1};
}

}  // namespace

View view_at(NodeReader& node, size_t input) {
  const GraphValue& value = node.value(input);
  if (value.kind == Kind::View) return *value.view;
  const int layer = value.layer;
  const bool is_times_number = value.kind == Kind::Scaled && layer != kImages &&
                               value.scale.size() == 1 && value.shift == std::vector<float>{0};
  if (!is_times_number) node.layer(input);  // refuses what is no result
  const TensorShape& shape = node.network().shape_of(layer);
  if (shape.size() != 2) refuse("dlflow has no layer that rearranges " + to_string(shape));
  View view = view_of(layer, shape);
  if (is_times_number) view.factor = value.scale[0];
  return view;
}

bool is_sequence(NodeReader& node, size_t input) {
  if (node.is(Kind::View, input)) return true;
  if (!node.is(Kind::Layer, input) && !node.is(Kind::Scaled, input)) return false;
  return node.network().shape_of(node.value(input).layer).size() == 2;
}

void give_view(NodeReader& node, View view, size_t output) {
  const TensorShape& shape = node.network().shape_of(view.layer);
  for (Dimension& dimension : view.dimensions) dimension = simplified(dimension);
  if (view == view_of(view.layer, shape)) return node.give({.layer = view.layer}, output);
  const int layer = view.layer;
  node.give({.kind = Kind::View, .layer = layer, .view = std::make_shared<View>(std::move(view))},
            output);
}

void read_slice(NodeReader& node) {
  const std::vector<int64_t> begins = node.list("starts", 1), ends = node.list("ends", 2);
  std::vector<int64_t> axes = node.list("axes", 3);
  if (node.has(4) && std::ranges::any_of(node.integers(4), [](int64_t step) { return step != 1; }))
    refuse("it leaves out numbers in between");
  if (node.is_constant(0)) return slice_constant(node, begins, ends, axes);
  View view = view_at(node, 0);
  if (axes.empty()) {
    axes.resize(begins.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (begins.size() != ends.size()) refuse("it has another number of ends than of beginnings");
  if (begins.size() != axes.size()) refuse("it has another number of axes than of beginnings");
  for (size_t i = 0; i < axes.size(); ++i) {
    view = sliced(view, dimension_at(axes[i], view.dimensions.size()), begins[i], ends[i]);
  }
  give_view(node, std::move(view));
}

void read_split(NodeReader& node) {
  const View view = view_at(node, 0);
  const size_t axis = dimension_at(node.integer("axis", 0), view.dimensions.size());
  const int64_t size = size_of(view.dimensions[axis]);
  int64_t begin = 0;
  const std::vector<int64_t> parts = parts_of(node, size);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 1 || parts[i] > size - begin) refuse("its parts are larger than what it reads");
    give_view(node, sliced(view, axis, begin, begin + parts[i]), i);
    begin += parts[i];
  }
  if (begin != size) refuse("its parts are smaller than what it reads");
}

void read_expand(NodeReader& node) {
  const std::vector<int64_t>& sizes = node.integers(1);
  if (!node.is_constant(0)) return give_view(node, expanded(view_at(node, 0), sizes));
  const OnnxTensor& number = node.constant(0);
  if (number.size() != 1) refuse("it repeats more than one number");
  fill_constant(node, number, sizes);
}

void choose_part(NodeReader& node) {
  const View view = view_at(node, 0);
  const size_t axis = dimension_at(node.integer("axis", 0), view.dimensions.size());
  const auto [index, stays] = index_of(node);
  View part = chosen(view, axis, index);
  if (stays) part.dimensions.insert(part.dimensions.begin() + int64_t(axis), Dimension{});
  give_view(node, std::move(part));
}

void squeeze_view(NodeReader& node, const std::vector<int64_t>& axes) {
  View view = view_at(node, 0);
  std::vector<size_t> all;
  for (const int64_t axis : axes) all.push_back(dimension_at(axis, view.dimensions.size()));
  std::ranges::sort(all, std::greater());
  for (const size_t axis : all) {
    if (axis >= view.dimensions.size() || size_of(view.dimensions[axis]) != 1)
      refuse("it leaves out a dimension of more than 1");
    view.dimensions.erase(view.dimensions.begin() + int64_t(axis));
  }
  give_view(node, std::move(view));
}

void unsqueeze_view(NodeReader& node, std::vector<int64_t> axes) {
  View view = view_at(node, 0);
  const size_t rank = view.dimensions.size() + axes.size();
  for (int64_t& axis : axes) axis = int64_t(dimension_at(axis, rank));
  std::ranges::sort(axes);
  for (const int64_t axis : axes) {
    if (axis > int64_t(view.dimensions.size())) refuse("its axis is not one of what it reads");
    view.dimensions.insert(view.dimensions.begin() + axis, Dimension{});
  }
  give_view(node, std::move(view));
}

}  // namespace dlflow::runtime
