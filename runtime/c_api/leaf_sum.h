#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/aligned_floats.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// The sum of vectors of floats over the leaves of a step, with the same bits on any number of
/// ranks: along one binary tree over the numbers of the leaves (collectives/sum_order.h). The
/// vectors are given from outside, piece by piece and leaf by leaf. A rank adds up what the tree
/// adds among its own leaves, on a stack of at most 2 lg n + 1 vectors for n leaves.
class LeafSum {
 public:
  /// Collective. `comm` must outlive this.
  LeafSum(Communicator& comm, size_t num_leaves, size_t count);

  size_t first_leaf() const { return share_.first; }
  size_t num_leaves() const { return share_.count; }
  size_t count() const { return count_; }

  /// Takes `scale * values` as elements from `first` on of this rank's leaf `leaf` (from 0), which
  /// must come one leaf after the other for each element. Each product is rounded before it is
  /// added, wherever it is. Null `values`: zeros.
  void add(size_t leaf, size_t first, size_t count, const float* values, float scale);

  /// The sum of these elements over all leaves of all ranks comes to lie in result(). Every leaf of
  /// this rank has given them, and gives them again once the task is done.
  Task sum(size_t first, size_t count);

  /// 64-byte aligned, always at the same address.
  std::span<float> result() { return allreduce_.values(); }

 private:
  float* level(size_t height);

  LeafShare share_;
  size_t count_;
  std::vector<size_t> height_of_;  // of the stack below each leaf
  Allreduce allreduce_;            // the lowest levels: what is left of this rank's leaves
  AlignedFloats waiting_;          // the higher ones
};

}  // namespace dlflow::runtime
