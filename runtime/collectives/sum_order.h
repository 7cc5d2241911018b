#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// In which order numbers are added: what decides the bits of a floating-point sum.
namespace dlflow::runtime {

/// The parts of all ranks, in the order of ranks, go onto a stack one after the other; after part i
/// the two topmost are replaced by their sum, additions[i] times. One is left at the end.
struct SumOrder {
  std::vector<size_t> num_parts;   ///< that each rank holds; 0 is allowed
  std::vector<uint8_t> additions;  ///< after each part of all ranks

  bool operator==(const SumOrder&) const = default;
};

/// ((0 + 1) + 2) + ...: one part per rank.
SumOrder sum_in_rank_order(int num_ranks);

/// A batch is divided into leaves 0 .. L-1, and their gradients are added along a binary tree:
/// neighbours first, then neighbouring pairs, and so on; the last of an odd number rises a level as
/// it is. The tree depends on L alone, so that the sum has the same bits however many ranks share
/// the leaves out.

/// The consecutive leaves of one rank. It adds up what it can by itself: its leaves go onto a stack
/// as in SumOrder, and what is left are its parts.
struct LeafShare {
  size_t first = 0;
  size_t count = 0;                ///< 0 for ranks beyond the number of leaves
  std::vector<uint8_t> additions;  ///< after each of the leaves
  size_t num_parts = 0;            ///< that are left: whole subtrees, as large as they can be
  size_t most_parts = 0;           ///< the greatest height of the stack

  bool operator==(const LeafShare&) const = default;
};
LeafShare leaf_share(size_t num_leaves, int rank, int num_ranks);

/// The order in which the parts that ranks are left with are added.
SumOrder sum_in_leaf_order(size_t num_leaves, int num_ranks);

/// The leaves of one rank, as many as each has, along a tree of their own: one part is left.
LeafShare leaves_of_rank(size_t leaves_per_rank, int rank);

/// The same sum, if every leaf is a part and a rank adds nothing by itself.
LeafShare leaves_as_parts(size_t num_leaves, int rank, int num_ranks);
SumOrder sum_of_leaves(size_t num_leaves, int num_ranks);

}  // namespace dlflow::runtime
