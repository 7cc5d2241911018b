#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/aligned_floats.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/comm/communicator.h"
#include "runtime/reduce/bucket.h"
#include "runtime/reduce/flat_layout.h"

namespace dlflow::runtime {

/// What decides the bits of the sum.
enum class SumMode {
  Exact,  ///< leaves alone: the same bits for any number of ranks
  Fast,   ///< one leaf per rank, added in whatever order is fastest for these ranks
};

/// Owns the gradients of all parameters and sums them over the leaves of all ranks while the
/// backward pass of the last leaf still runs. A step: for each leaf of this rank in turn, write
/// each gradient and call ready() for it; call finish(), read the sums.
///
/// Sums, not means: the loss is divided by the number of samples of the *global* batch
/// (Batch::global_samples), so that the sum is the gradient of the mean loss over the global batch
/// however unevenly its samples are spread over leaves and ranks.
class Reducer {
 public:
  /// Collective. Throws Error{InvalidInput} naming the ranks whose layout is not that of rank 0.
  /// `num_leaves` over all ranks; at least 1, in fast mode one per rank. `comm` must outlive this.
  Reducer(Communicator& comm, FlatLayout layout, SumMode mode, size_t num_leaves,
          size_t bucket_bytes = kBucketBytes);

  const FlatLayout& layout() const { return layout_; }

  /// The leaves of this rank.
  size_t first_leaf() const { return leaves_.first; }
  size_t num_leaves() const { return leaves_.count; }

  /// Where the gradients of this rank's leaf `leaf` (from 0) go, in layout(); 64-byte aligned and
  /// always at the same address. Zero at first, and padding must stay so. Leaves share memory.
  std::span<float> gradients(size_t leaf);
  std::span<float> gradient(size_t leaf, size_t parameter) {
    return layout_.slot(gradients(leaf), parameter);
  }

  /// The backward pass of `leaf` has written `parameter`'s gradient and leaves it alone until
  /// finish(). Every parameter once per leaf, in any order; for each, one leaf after the other: the
  /// next may be written then, and not before. A bucket that
  /// is complete in the last leaf is on its way at once, after those before it.
  void ready(size_t leaf, size_t parameter);

  /// Returns when sums() is what it says. Collective, once per step. Throws Error{Unavailable}
  /// naming the rank that did not answer.
  void finish();

  /// The gradients of all leaves of all ranks, added; the same bits on every rank. Until the next
  /// leaf is written.
  std::span<float> sums() { return allreduce_.values(); }
  std::span<float> sum(size_t parameter) { return layout_.slot(sums(), parameter); }

  /// Two ranks on two cores, all at the end against a bucket of 1 MiB at a time: a step of 2.7 MB
  /// of gradients takes 0.79 and 0.80 ms, of 16 MB 9.7 and 10.1 ms. On one node nothing overlaps,
  /// and reading what a peer's core has just written is slow; so buckets are large.
  static constexpr size_t kBucketBytes = 8 << 20;

 private:
  void begin_step();
  void start_next_bucket();
  std::span<float> level(size_t height);

  FlatLayout layout_;
  LeafShare leaves_;
  std::vector<size_t> height_of_;  // of the stack below each leaf
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // each parameter's
  Allreduce allreduce_;
  AlignedFloats waiting_;        // what lies higher on the stack than the parts of this rank
  std::vector<size_t> missing_;  // parameters of each bucket that are not ready in this step
  size_t next_bucket_ = 0;       // the first that is not started
};

}  // namespace dlflow::runtime
