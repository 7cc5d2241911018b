#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_floats.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/comm/communicator.h"
#include "runtime/compress/compressed_sum.h"
#include "runtime/reduce/bucket.h"
#include "runtime/reduce/flat_layout.h"
#include "runtime/timeline/timeline.h"

namespace dlflow::runtime {

/// The order of the additions, which decides the bits of the sum.
enum class SumMode {
  Exact,  ///< leaves alone: the same bits for any number of ranks
  Fast,   ///< the sums of each rank's leaves in whatever order is fastest for these ranks
};

/// Gradients that are compressed: how, and which parameters, by their numbers, ascending.
struct CompressedGradients {
  Compression how;
  std::vector<size_t> parameters;
  std::vector<Matrix> matrices;  ///< of PowerSgd: what each of them is, with places in the layout
  size_t num_gradients = 0;  ///< parameters behind these have no momentum: they are no gradients
  uint64_t seed = 0;
};

struct ReducerOptions {
  SumMode mode = SumMode::Exact;
  size_t num_leaves = 1;  ///< over all ranks; at least 1, in fast mode as many on each rank

  /// In exact mode: the caller writes parts() of large parameters instead of their leaves. Changes
  /// no bit.
  bool caller_adds_leaves = false;

  /// Takes the sums, in pieces, each element once: the update. If Reducer::consumes_shares(), each
  /// rank gets other elements.
  Consume consume = {};

  /// Precision of gradients between nodes; other than Float32 only in fast mode.
  DataType wire = DataType::Float32;

  RuleSet rules{};  ///< how they are summed; what is empty is chosen by topology

  /// Only in fast mode, on a wire of Float32: sums are near, not exact. Parameters that are not
  /// named are summed as they are.
  std::optional<CompressedGradients> compressed = std::nullopt;

  /// The first layers, which the next forward pass needs first, overtake the others; the last
  /// parameters, which are ready first, are not overtaken: what a step reports is one of them.
  /// Changes no bit.
  bool priority = true;

  /// Where a bucket ends; by default large on one node, and on others as much as is sent before
  /// something more urgent may come.
  std::optional<size_t> bucket_bytes = std::nullopt;

  /// Of the parameters, for people: a bucket is called after its first and its last. Empty: their
  /// numbers, from 1.
  std::vector<std::string> names{};

  /// Where buckets under way are recorded; must outlive the reducer.
  Timeline* timeline = nullptr;
};

/// Owns the gradients of all parameters and sums them over the leaves of all ranks while the
/// backward pass of the last leaf still runs, and on into the next forward pass. A step: begin();
/// for each leaf of this rank in turn, write each gradient and call ready() for it; end(). Then
/// wait() for each parameter before its weights are read, or finish() for all.
///
/// Sums, not means: the loss is divided by the number of samples of the *global* batch
/// (LocalBatch::global_samples), so that the sum is the gradient of the mean loss over the global
/// batch however unevenly its samples are spread over leaves and ranks.
class Reducer {
 public:
  /// Collective. Throws Error{InvalidInput} naming the ranks whose layout is not that of rank 0.
  /// `comm` must outlive this.
  Reducer(Communicator& comm, FlatLayout layout, ReducerOptions options);

  const FlatLayout& layout() const { return layout_; }

  /// The leaves of this rank.
  size_t first_leaf() const { return leaves_.first; }
  size_t num_leaves() const { return leaves_.count; }

  /// The additions that leave the parts of this rank: LeafShare::additions.
  const std::vector<uint8_t>& additions() const { return leaves_.additions; }

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

  /// Or the caller adds up `parameter`'s gradients of all leaves, writes the parts that are left of
  /// them there, and then calls this once.
  std::vector<float*> parts(size_t parameter);
  void ready(size_t parameter);

  /// Until release(), what is ready goes on its way later: for ranks that make other collective
  /// calls between the layers of a step, and not all at the same layers. All ranks together.
  void hold() { holds_ = true; }
  void release();

  /// The backward passes of a step begin: the gradients may be written. Waits for the last step's
  /// sums. Throws Error{Unavailable} naming the rank that did not answer, as the others do.
  /// `step` counts from 0 over the whole run, `epoch` says how much is sent if they are compressed.
  void begin(uint64_t step = 0, uint64_t epoch = 0);

  /// The backward passes are over; also of a rank without leaves.
  void end();

  /// Returns when `parameter`'s gradients of all leaves of all ranks were added and consumed; the
  /// same bits on every rank.
  void wait(size_t parameter);

  /// wait() for all.
  void finish();

  /// Moves what is under way, without waiting: between layers.
  void poll();

  /// Seconds since the last call in which wait() had to wait: what communication was exposed, since
  /// nothing else was left to do.
  double take_wait_s() { return std::chrono::duration<double>(std::exchange(waited_, {})).count(); }

  /// Whether the ranks share the elements out among themselves, and so must share the memory of
  /// what they make of them; else every rank consumes all of them. See Allreduce.
  bool consumes_shares() const { return allreduce_.consumes_shares(); }

  /// The compression and what it keeps from step to step, or null.
  CompressedSum* compressed() { return compressed_.get(); }

 private:
  /// The journey of a bucket in this step, in pieces.
  struct Departure {
    std::vector<Allreduce::Ticket> pieces;
    Timeline::Clock::time_point begin;
    bool seen_done = false;
  };

  void start_complete_buckets();
  void start_next_bucket();
  bool done(const Departure& departure) const;
  void record_done();
  std::span<float> level(size_t height);

  Communicator& comm_;
  FlatLayout layout_;
  LeafShare leaves_;
  std::vector<size_t> height_of_;  // of the stack below each leaf
  std::vector<Bucket> buckets_;
  size_t piece_elements_;
  std::vector<std::string> bucket_names_;
  std::vector<size_t> bucket_of_;  // each parameter's
  bool priority_;
  bool holds_ = false;
  std::unique_ptr<CompressedSum> compressed_;
  Allreduce allreduce_;
  AlignedFloats waiting_;           // what lies higher on the stack than the parts of this rank
  std::vector<size_t> missing_;     // parameters of each bucket that are not ready in this step
  std::vector<Departure> started_;  // the first buckets, in this step
  Timeline::Clock::duration waited_{};
  Timeline silent_;
  Timeline* timeline_;
};

}  // namespace dlflow::runtime
