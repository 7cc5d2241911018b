#include <algorithm>

#include "runtime/onnx/element.h"
#include "runtime/onnx/operations.h"

namespace dlflow::runtime {
namespace {

/// Flattens to (B,F); adds no layer if the input has that shape.
void flatten(NodeReader& node) {
  if (node.shape(0).size() == 1) return node.give_layer(node.layer(0));
  node.add({.kind = LayerKind::Flatten}, {node.layer(0)});
}

/// Whether `sizes` describe a batch of `shape`; -1 is a size to infer, and a leading 0 keeps the
/// number of samples.
bool is_batch_of(NodeReader& node, const TensorShape& shape, const std::vector<int64_t>& sizes) {
  if (sizes.size() != shape.size() + 1 || std::ranges::count(sizes, -1) > 1) return false;
  const int64_t samples = sizes[0];
  const bool keeps_samples =
      samples == -1 || samples == 0 || samples == kBatch || samples == node.batch();
  return keeps_samples && std::equal(shape.begin(), shape.end(), sizes.begin() + 1,
                                     [](int64_t a, int64_t b) { return a == b || b == -1; });
}

/// Returns a list of sizes with changed dimensions, which only matter for products and sums.
void give_same_sizes(NodeReader& node) {
  const std::vector<int64_t>& sizes = node.integers(0);
  node.give_constant({{int64_t(sizes.size())}, {}, sizes});
}

void reshape_constant(NodeReader& node, const std::vector<int64_t>& sizes) {
  OnnxTensor reshaped = node.constant(0);
  auto left = int64_t(reshaped.size());
  for (const int64_t size : sizes) {
    if (size < 1 || left % size != 0) refuse("it leaves the shape of a constant open");
    left /= size;
  }
  if (left != 1) refuse("its constant does not have as many numbers as its shape");
  reshaped.shape = sizes;
  node.give_constant(std::move(reshaped));
}

}  // namespace

void read_flatten(NodeReader& node) {
  if (node.integer("axis", 1) != 1) refuse("dlflow's flatten keeps the batch dimension");
  flatten(node);
}

void read_reshape(NodeReader& node) {
  const std::vector<int64_t> sizes = node.list("shape", 1);
  if (node.is_constant(0)) return reshape_constant(node, sizes);
  const TensorShape& shape = node.shape(0);
  if (is_batch_of(node, shape, sizes)) return node.give_layer(node.layer(0));
  if (is_batch_of(node, {num_numbers(shape)}, sizes)) return flatten(node);
  refuse("dlflow reshapes only to (B,F)");
}

void read_squeeze(NodeReader& node) {
  if (node.is_constant(0)) return give_same_sizes(node);
  std::vector<int64_t> axes = node.list("axes", 1);
  const TensorShape& shape = node.shape(0);
  for (int64_t& axis : axes) axis += axis < 0 ? 4 : 0;
  std::ranges::sort(axes);
  const bool is_point = shape.size() == 1 || (shape.size() == 3 && shape[1] == 1 && shape[2] == 1);
  if (axes != std::vector<int64_t>{2, 3} || !is_point)
    refuse("dlflow has no layer that gives this shape");
  flatten(node);
}

void read_unsqueeze(NodeReader& node) {
  if (!node.is_constant(0)) refuse("dlflow has no layer that adds a dimension");
  give_same_sizes(node);
}

void read_transpose(NodeReader& node) {
  if (!node.is_constant(0)) refuse("dlflow has no layer that swaps dimensions");
  const OnnxTensor& from = node.constant(0);
  const std::vector<int64_t> order = node.integers("perm");
  if (from.shape.size() != 2 || (!order.empty() && order != std::vector<int64_t>{1, 0}) ||
      from.floats.empty())
    refuse("it is not a transposed matrix");
  OnnxTensor to{{from.shape[1], from.shape[0]}, {}, {}};
  to.floats = transposed(from.floats, size_t(from.shape[0]), size_t(from.shape[1]));
  const bool is_shared = node.shares(0);
  node.give({.kind = GraphValue::Kind::Constant,
             .constant = std::make_shared<const OnnxTensor>(std::move(to)),
             .is_shared = is_shared,
             .turned_from = node.name_of(0)});
}

void read_shape(NodeReader& node) {
  std::vector<int64_t> sizes = node.shape(0);
  sizes.insert(sizes.begin(), kBatch);
  const auto rank = int64_t(sizes.size());
  const auto place = [&](const char* name, int64_t usual) {
    const int64_t at = node.integer(name, usual);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = place("start", 0), end = std::max(begin, place("end", rank));
  node.give_constant({{end - begin}, {}, {sizes.begin() + begin, sizes.begin() + end}});
}

bool multiply_sizes(NodeReader& node) {
  if (!node.is_constant(0) || !node.is_constant(1)) return false;
  int64_t product = 1;
  for (const size_t input : {0, 1}) {
    const std::vector<int64_t>& size = node.integers(input);
    if (size.size() != 1 || size[0] < 0 || size[0] > 1 << 30)
      refuse("it multiplies constants that are not two sizes of a sample");
    product *= size[0];
  }
  node.give_constant({{1}, {}, {product}});
  return true;
}

void read_constant(NodeReader& node) { node.give_constant(node.constant_setting()); }

/// Accepts casts to the same kind of number. Tokens of a second input are floats in dlflow's files.
void read_cast(NodeReader& node) {
  const auto to = Element(node.integer("to", 0));
  const bool is_whole = to == Element::Int32 || to == Element::Int64;
  const bool is_float = to == Element::Float || to == Element::Float16 || to == Element::Double ||
                        to == Element::BFloat16;
  if (node.is_constant(0)) {
    const bool was_whole = node.constant(0).floats.empty();
    if (was_whole ? !is_whole : !is_float)
      refuse("it converts a constant to another kind of number");
    return pass_on(node);
  }
  const int layer = node.layer(0);
  if (!is_float && !(is_whole && layer == kImages))
    refuse("it converts a result to another kind of number");
  node.give_layer(layer);
}

void pass_on(NodeReader& node) { node.give(node.value(0)); }

}  // namespace dlflow::runtime
