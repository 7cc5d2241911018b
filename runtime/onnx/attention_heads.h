#pragma once

#include <cstdint>
#include <vector>

#include "runtime/onnx/graph_values.h"

/// The heads of attention in a file, and dlflow's layer of them.
namespace dlflow::runtime {

/// Queries, keys and values: where each head begins in the features of the layer that gives it.
struct Heads {
  int64_t size = 1;  ///< features of each
  std::vector<int64_t> queries, keys, values;
  int layer_of_queries = kImages, layer_of_keys = kImages, layer_of_values = kImages;
  size_t group = 1;  ///< heads of queries that have the keys and values of one
};

/// The layer that gives all queries, then all keys, then all values. Linear layers that give them
/// apart, or in another order, become one, if they come last and nothing else reads them. Throws
/// Error{InvalidInput} if there is no such layer.
int layer_of_heads(NodeReader& node, const Heads& heads);

/// Adds the attention of which `scores` are the scores, and gives its result. Throws
/// Error{InvalidInput} if it is not that of dlflow.
void add_attention(NodeReader& node, const Scores& scores, const View& values);

}  // namespace dlflow::runtime
