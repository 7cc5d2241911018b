#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// The order in which numbers are added: it determines the bits of a floating-point sum.
namespace dlflow::runtime {

/// The parts of all ranks, in the order of ranks, are pushed onto a stack one by one; after part i
/// the two topmost entries are replaced by their sum, additions[i] times.
struct SumOrder {
  std::vector<size_t> num_parts;   ///< of each rank; 0 is allowed
  std::vector<uint8_t> additions;  ///< after each part of all ranks

  bool operator==(const SumOrder&) const = default;
};

/// ((0 + 1) + 2) + ..., with one part per rank.
SumOrder sum_in_rank_order(int num_ranks);

/// A batch is divided into leaves 0 .. L-1, and their gradients are added along a binary tree:
/// neighbours first, then neighbouring pairs, and so on; if a level has an odd number, its last
/// entry rises unchanged. The tree depends only on L, so that the sum has the same bits however
/// many ranks share the leaves.

/// The consecutive leaves of one rank. It adds up what it can locally: its leaves are pushed onto a
/// stack as in SumOrder, and the remaining entries are its parts.
struct LeafShare {
  size_t first = 0;
  size_t count = 0;                ///< 0 for ranks beyond the number of leaves
  std::vector<uint8_t> additions;  ///< after each of the leaves
  size_t num_parts = 0;            ///< remaining entries: whole subtrees, as large as possible
  size_t most_parts = 0;           ///< the greatest height of the stack

  bool operator==(const LeafShare&) const = default;
};
LeafShare leaf_share(size_t num_leaves, int rank, int num_ranks);

/// The order in which the ranks' remaining parts are added.
SumOrder sum_in_leaf_order(size_t num_leaves, int num_ranks);

/// One rank's leaves, as many on each rank, added to one part along a separate tree.
LeafShare leaves_of_rank(size_t leaves_per_rank, int rank);

/// The same sum if every leaf is a part and a rank adds nothing locally.
LeafShare leaves_as_parts(size_t num_leaves, int rank, int num_ranks);
SumOrder sum_of_leaves(size_t num_leaves, int num_ranks);

}  // namespace dlflow::runtime
