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

/// Sums vectors of floats over the leaves of a step, with the same bits on any number of ranks:
/// along one binary tree over the leaf numbers (collectives/sum_order.h). The caller provides the
/// vectors piece by piece and leaf by leaf. A rank adds what the tree adds among its own leaves, on
/// a stack of at most 2 lg n + 1 vectors for n leaves.
class LeafSum {
 public:
  /// Collective. `comm` must outlive this.
  LeafSum(Communicator& comm, size_t num_leaves, size_t count);

  size_t first_leaf() const { return share_.first; }
  size_t num_leaves() const { return share_.count; }
  size_t count() const { return count_; }

  /// Adds `scale * values` as the elements from `first` on of this rank's leaf `leaf` (from 0). For
  /// each element, leaves must come in order. Each product is rounded before it is added, on every
  /// rank. If `values` is null, adds zeros.
  void add(size_t leaf, size_t first, size_t count, const float* values, float scale);

  /// Puts the sum of these elements over all leaves of all ranks in result(). Every leaf of this
  /// rank must have added them; they may be added again once the task is done.
  Task sum(size_t first, size_t count);

  /// 64-byte aligned, always at the same address.
  std::span<float> result() { return allreduce_.values(); }

 private:
  float* level(size_t height);

  LeafShare share_;
  size_t count_;
  std::vector<size_t> height_of_;  // of the stack before each leaf
  Allreduce allreduce_;            // the lowest levels: the remaining parts of this rank
  AlignedFloats waiting_;          // the higher levels
};

}  // namespace dlflow::runtime
