#include <algorithm>
#include <numeric>

#include "runtime/onnx/operations.h"

/// Texts of unequal length: which positions have a token, from the number of tokens of each text;
/// and the mean over these positions, a sum and a quotient.
namespace dlflow::runtime {
namespace {

using Kind = GraphValue::Kind;

bool is_column(const std::vector<int64_t>& sizes) { return sizes == std::vector<int64_t>{-1, 1}; }

/// 0, 1, 2, …: the positions.
bool counts_positions(const OnnxTensor& constant) {
  std::vector<int64_t> places(constant.size());
  std::iota(places.begin(), places.end(), 0);
  return constant.integers == places;
}

int add_mean_pool(NodeReader& node, int input) {
  Layer layer;
  layer.kind = LayerKind::MeanPool;
  return node.add(std::move(layer), {input});
}

}  // namespace

void read_less(NodeReader& node) {
  const bool is_mask = node.is_constant(0) && node.is(Kind::TextLengths, 1) &&
                       is_column(node.value(1).sizes) && counts_positions(node.constant(0));
  if (!is_mask) refuse("dlflow has it only to find the tokens of texts of unequal length");
  node.give({.kind = Kind::HasToken, .sizes = {-1, int64_t(node.constant(0).size())}});
}

bool reshape_of_texts(NodeReader& node, const std::vector<int64_t>& sizes) {
  GraphValue value = node.value(0);
  if (value.kind != Kind::TextLengths && value.kind != Kind::HasToken) return false;
  const auto others_than_1 = [](std::vector<int64_t> all) {
    std::erase(all, 1);
    return all;
  };
  if (sizes.empty() || sizes[0] != -1 || others_than_1(sizes) != others_than_1(value.sizes))
    refuse("it does more with the lengths of texts than to add dimensions");
  value.sizes = sizes;
  node.give(std::move(value));
  return true;
}

bool keep_tokens(NodeReader& node) {
  if (!node.is(Kind::HasToken, 0) || !node.is_constant(2) || !node.is(Kind::Layer, 1)) return false;
  const TensorShape& shape = node.shape(1);
  if (shape.size() != 2 || node.value(0).sizes != std::vector<int64_t>{-1, shape[0], 1} ||
      !is_number(node.constant(2), 0))
    return false;
  node.give({.kind = Kind::KeptTokens, .layer = node.layer(1)});
  return true;
}

void read_reduce_sum(NodeReader& node) {
  if (!node.is(Kind::KeptTokens, 0) || node.list("axes", 1) != std::vector<int64_t>{1} ||
      node.integer("keepdims", 1) != 0)
    refuse("dlflow has it only as a part of mean_pool");
  node.give({.kind = Kind::SumOfTokens, .layer = node.value(0).layer});
}

bool divide_by_lengths(NodeReader& node) {
  if (!node.is(Kind::SumOfTokens, 0) || !node.is(Kind::TextLengths, 1) ||
      !is_column(node.value(1).sizes))
    return false;
  add_mean_pool(node, node.value(0).layer);
  return true;
}

bool average_positions(NodeReader& node, const std::vector<int64_t>& axes) {
  if (!node.is(Kind::Layer, 0) || node.shape(0).size() != 2) return false;
  if ((axes != std::vector<int64_t>{1} && axes != std::vector<int64_t>{-2}) ||
      node.integer("keepdims", 1) != 0 || node.has_text_lengths())
    return false;
  add_mean_pool(node, node.layer(0));
  return true;
}

}  // namespace dlflow::runtime
