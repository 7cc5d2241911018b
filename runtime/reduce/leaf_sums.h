#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/collectives/sum_order.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Adds small vectors of doubles over the leaves of all ranks, in the middle of a step: the
/// statistics of batch normalisation over the global batch. It adds along the tree of leaves
/// (collectives/sum_order.h), so that the bits do not depend on the number of ranks.
class LeafSums {
 public:
  /// `num_leaves`: over all ranks, divided as by leaf_share. `comm` must outlive this.
  LeafSums(Communicator& comm, size_t num_leaves);

  /// The leaves of each rank.
  std::span<const LeafShare> shares() const { return shares_; }
  size_t num_leaves() const { return additions_.size(); }

  /// Replaces each of `own`, one per leaf of this rank with `count` numbers each, by the sum over
  /// all leaves. Collective; also called by ranks without leaves. An all-gather of 8 L `count`
  /// bytes; every rank adds all of them.
  void add(std::span<const std::span<double>> own, size_t count);

 private:
  void exchange(size_t count);
  void add_up(size_t count);

  Communicator& comm_;
  std::vector<LeafShare> shares_;   // by rank
  std::vector<uint8_t> additions_;  // after each leaf
  std::vector<double> rows_;        // (leaves, count)
};

}  // namespace dlflow::runtime
