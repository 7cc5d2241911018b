#include <algorithm>

#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

int64_t count(const TensorShape& shape) {
  int64_t all = 1;
  for (const int64_t size : shape) all *= size;
  return all;
}

/// (B,F) of any shape; nothing of what has that shape anyway.
void flatten(NodeReader& node) {
  if (node.shape(0).size() == 1) return node.give_layer(node.layer(0));
  Layer layer;
  layer.kind = LayerKind::Flatten;
  node.add(std::move(layer), {node.layer(0)});
}

/// Whether `sizes`, in which -1 is found and 0 is as before, are those of a batch of `shape`.
bool is_shape(const std::vector<int64_t>& sizes, const TensorShape& shape) {
  if (sizes.size() != shape.size() + 1) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool fits = sizes[i + 1] == shape[i] || (sizes[i + 1] == -1 && sizes[0] != -1);
    if (!fits) return false;
  }
  return true;
}

/// Whether `size` is that of samples and positions in one dimension.
bool joins_positions(NodeReader& node, int64_t size) {
  const bool is_batch = size < 1 || size == kBatch || size == node.batch();
  return is_sequence(node, 0) && !is_batch;
}

/// A constant with other dimensions, which matter for products and sums alone.
void give_same_numbers(NodeReader& node) {
  OnnxTensor same = node.constant(0);
  same.shape = {int64_t(same.size())};
  node.give_constant(std::move(same));
}

void reshape_constant(NodeReader& node, const std::vector<int64_t>& sizes) {
  OnnxTensor reshaped = node.constant(0);
  auto left = int64_t(reshaped.size());
  for (const int64_t size : sizes) {
    if (size < 1 || left % size != 0) refuse("it finds the shape of a constant");
    left /= size;
  }
  if (left != 1) refuse("it has another number of constants than its shape");
  reshaped.shape = sizes;
  node.give_constant(std::move(reshaped));
}

}  // namespace

void read_flatten(NodeReader& node) {
  if (node.integer("axis", 1) != 1) refuse("flatten of dlflow leaves the batch alone");
  flatten(node);
}

void read_reshape(NodeReader& node) {
  const std::vector<int64_t> sizes = node.list("shape", 1);
  if (node.is_constant(0)) return reshape_constant(node, sizes);
  if (reshape_of_texts(node, sizes)) return;
  if (node.is(Kind::Normalized, 0)) {
    const int index = node.value(0).layer;
    if (!is_shape(sizes, node.network().at(index).shape))
      refuse("dlflow has no layer that gives this shape");
    return node.give_layer(index);
  }
  if (node.is(Kind::View, 0))
    return give_view(node, reshaped(view_at(node, 0), sizes, node.batch()));
  const TensorShape& shape = node.shape(0);
  const bool is_flat = sizes.size() == 2 && (sizes[1] == count(shape) ||
                                             (sizes[1] == -1 && !joins_positions(node, sizes[0])));
  if (is_shape(sizes, shape)) return node.give_layer(node.layer(0));
  if (is_flat) return flatten(node);
  if (sizes.size() == 3 && shape.size() == 3 && sizes[1] > 0 &&
      node.is_read_by_only({"InstanceNormalization"}))
    return node.give({.kind = Kind::Grouped, .layer = node.layer(0), .groups = sizes[1]});
  if (is_sequence(node, 0)) return give_view(node, reshaped(view_at(node, 0), sizes, node.batch()));
  refuse("dlflow reshapes to (B,F) alone");
}

void read_squeeze(NodeReader& node) {
  if (node.is_constant(0)) return give_same_numbers(node);
  std::vector<int64_t> axes = node.list("axes", 1);
  if (is_sequence(node, 0)) return squeeze_view(node, axes);
  const TensorShape& shape = node.shape(0);
  for (int64_t& axis : axes) axis += axis < 0 ? 4 : 0;
  std::ranges::sort(axes);
  const bool is_point = shape.size() == 1 || (shape.size() == 3 && shape[1] == 1 && shape[2] == 1);
  if (axes != std::vector<int64_t>{2, 3} || !is_point)
    refuse("dlflow has no layer that gives this shape");
  flatten(node);
}

void read_unsqueeze(NodeReader& node) {
  if (is_sequence(node, 0)) return unsqueeze_view(node, node.list("axes", 1));
  if (!node.is_constant(0)) refuse("dlflow has no layer that adds a dimension");
  give_same_numbers(node);
}

void read_transpose(NodeReader& node) {
  if (turn_means(node)) return;
  if (is_sequence(node, 0))
    return give_view(node, transposed(view_at(node, 0), node.integers("perm")));
  if (!node.is_constant(0)) refuse("dlflow has no layer that swaps dimensions");
  const OnnxTensor& from = node.constant(0);
  const std::vector<int64_t> order = node.integers("perm");
  if (from.shape.size() != 2 || (!order.empty() && order != std::vector<int64_t>{1, 0}) ||
      from.floats.empty())
    refuse("it is no transposed matrix");
  OnnxTensor to{{from.shape[1], from.shape[0]}, {}, {}};
  to.floats = transposed(from.floats, size_t(from.shape[0]), size_t(from.shape[1]));
  const bool is_shared = node.shares(0);
  node.give({.kind = Kind::Constant,
             .constant = std::make_shared<const OnnxTensor>(std::move(to)),
             .is_shared = is_shared,
             .turned_from = node.name_of(0)});
}

void read_shape(NodeReader& node) {
  OnnxTensor sizes;
  if (node.is(Kind::View, 0)) {
    sizes.integers = sizes_of(view_at(node, 0));
  } else {
    const TensorShape& shape = node.shape(0);
    sizes.integers = {kBatch};
    sizes.integers.insert(sizes.integers.end(), shape.begin(), shape.end());
  }
  const auto rank = int64_t(sizes.integers.size());
  const int64_t begin = slice_bound(node.integer("start", 0), rank);
  const int64_t end = std::max(begin, slice_bound(node.integer("end", rank), rank));
  sizes.integers = {sizes.integers.begin() + begin, sizes.integers.begin() + end};
  sizes.shape = {end - begin};
  node.give_constant(std::move(sizes));
}

void read_constant(NodeReader& node) { node.give_constant(node.constant_setting()); }

void read_cast(NodeReader& node) {
  if (node.is_constant(0)) return cast_constant(node);
  for (const Kind kind : {Kind::View, Kind::Scores, Kind::Shares, Kind::TextLengths})
    if (node.is(kind, 0)) return pass_on(node);
  node.give_layer(node.layer(0));
}

void pass_on(NodeReader& node) { node.give(node.value(0)); }

}  // namespace dlflow::runtime
