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

struct ReducerOptions {
  SumMode mode = SumMode::Exact;
  size_t num_leaves = 1;  ///< over all ranks; at least 1, in fast mode one per rank

  /// Takes the sums, in pieces, each element once: the update. If Reducer::consumes_shares(), each
  /// rank gets other elements.
  Consume consume = {};

  /// Two ranks on two cores, all at the end against a bucket of 1 MiB at a time: a step of 2.7 MB
  /// of gradients takes 0.79 and 0.80 ms, of 16 MB 9.7 and 10.1 ms. On one node nothing overlaps,
  /// and reading what a peer's core has just written is slow; so buckets are large.
  size_t bucket_bytes = 8 << 20;
};

/// Owns the gradients of all parameters and sums them over the leaves of all ranks while the
/// backward pass of the last leaf still runs. A step: for each leaf of this rank in turn, write
/// each gradient and call ready() for it; call finish(): all sums have been consumed.
///
/// Sums, not means: the loss is divided by the number of samples of the *global* batch
/// (Batch::global_samples), so that the sum is the gradient of the mean loss over the global batch
/// however unevenly its samples are spread over leaves and ranks.
class Reducer {
 public:
  /// Collective. Throws Error{InvalidInput} naming the ranks whose layout is not that of rank 0.
  /// `comm` must outlive this.
  Reducer(Communicator& comm, FlatLayout layout, ReducerOptions options);

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

  /// Returns when the gradients of all leaves of all ranks were added and consumed; the same bits
  /// on every rank. Collective, once per step. Throws Error{Unavailable} naming the rank that did
  /// not answer.
  void finish();

  /// Whether the ranks share the elements out among themselves, and so must share the memory of
  /// what they make of them; else every rank consumes all of them. See Allreduce.
  bool consumes_shares() const { return allreduce_.consumes_shares(); }

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
