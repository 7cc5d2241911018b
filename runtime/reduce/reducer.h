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
#include "runtime/timeline/timeline.h"

namespace dlflow::runtime {

/// The order of the additions, which determines the bits of the sum.
enum class SumMode {
  Exact,  ///< by leaves only: the same bits for any number of ranks
  Fast,   ///< sums of each rank's leaves, in the order that is fastest for these ranks
};

/// Compressed gradients: the method, and the numbers of the parameters, ascending.
struct CompressedGradients {
  Compression how;
  std::vector<size_t> parameters;
  std::vector<Matrix> matrices;  ///< for PowerSgd: the parameters as matrices, placed in the layout
  size_t num_gradients = 0;      ///< later parameters have no momentum, as they are no gradients
  uint64_t seed = 0;
};

struct ReducerOptions {
  SumMode mode = SumMode::Exact;
  size_t num_leaves = 1;  ///< over all ranks; at least 1; equal on each rank in fast mode

  /// Exact mode: the caller writes parts() of large parameters instead of their leaves. Changes no
  /// bit.
  bool caller_adds_leaves = false;

  /// The update: consumes the sums in pieces, each element once. If Reducer::consumes_shares(),
  /// each rank gets other elements.
  Consume consume = {};

  /// The precision of gradients between nodes; others than Float32 only in fast mode.
  DataType wire = DataType::Float32;

  RuleSet rules{};  ///< the algorithms; empty rules are chosen by topology

  /// Only in fast mode with a Float32 wire: sums are approximate. Parameters that are not listed
  /// are summed uncompressed.
  std::optional<CompressedGradients> compressed = std::nullopt;

  /// The first layers, which the next forward pass needs first, overtake the others. The last
  /// parameters, which are ready first and include a step's report, are not overtaken. Changes no
  /// bit.
  bool priority = true;

  /// The size of a bucket; by default large on one node, and between nodes as much as may be sent
  /// before something more urgent follows.
  std::optional<size_t> bucket_bytes = std::nullopt;

  /// The names of the parameters, for messages: a bucket is named after its first and last. If
  /// empty, parameters have numbers from 1.
  std::vector<std::string> names{};

  /// Records the buckets under way; must outlive the reducer.
  Timeline* timeline = nullptr;
};

/// Owns the gradients of all parameters and sums them over the leaves of all ranks while the
/// backward pass of the last leaf still runs, and on into the next forward pass. A step: begin();
/// for each leaf of this rank in turn, write each gradient and call ready() for it; end(). Then
/// wait() for each parameter before its weights are read, or finish() for all.
///
/// Computes sums, not means: the loss is divided by the number of samples of the *global* batch
/// (LocalBatch::global_samples), so that the sum is the gradient of the mean loss over the global
/// batch, however unevenly its samples are spread over leaves and ranks.
class Reducer {
 public:
  /// Collective. Throws Error{InvalidInput} naming the ranks whose layout differs from rank 0's.
  /// `comm` must outlive this.
  Reducer(Communicator& comm, FlatLayout layout, ReducerOptions options);

  const FlatLayout& layout() const { return layout_; }

  /// The leaves of this rank.
  size_t first_leaf() const { return leaves_.first; }
  size_t num_leaves() const { return leaves_.count; }

  /// The additions that produce this rank's parts: LeafShare::additions.
  const std::vector<uint8_t>& additions() const { return leaves_.additions; }

  /// The gradients of this rank's leaf `leaf` (from 0), in layout(); 64-byte aligned and always at
  /// the same address. Zero at first, and padding must stay zero. Leaves share memory.
  std::span<float> gradients(size_t leaf);
  std::span<float> gradient(size_t leaf, size_t parameter) {
    return layout_.slot(gradients(leaf), parameter);
  }

  /// The backward pass of `leaf` has written `parameter`'s gradient and does not change it until
  /// finish(). Called once per parameter and leaf; parameters in any order, but each one's leaves
  /// in order: the next leaf may be written only after this call. A complete bucket of the last
  /// leaf starts at once, after those before it.
  void ready(size_t leaf, size_t parameter);

  /// Alternatively, the caller adds up `parameter`'s gradients of all leaves itself, writes the
  /// remaining parts here, and then calls ready() once.
  std::vector<float*> parts(size_t parameter);
  void ready(size_t parameter);

  /// Delays ready buckets until release(): for ranks that make other collective calls between the
  /// layers of a step, at differing layers. Called by all ranks together.
  void hold() { holds_ = true; }
  void release();

  /// Begins the backward passes of a step: the gradients may be written. Waits for the last step's
  /// sums. Throws Error{Unavailable} naming the rank that did not answer, as the others do. `step`
  /// counts from 0 over the whole run; `epoch` determines the density of compression.
  void begin(uint64_t step = 0, uint64_t epoch = 0);

  /// Ends the backward passes; also called by a rank without leaves.
  void end();

  /// Returns once `parameter`'s gradients of all leaves of all ranks are added and consumed; the
  /// same bits on every rank.
  void wait(size_t parameter);

  /// wait() for all parameters.
  void finish();

  /// Moves messages under way, without waiting; called between layers.
  void poll();

  /// Seconds that wait() has waited since the last call: exposed communication, during which
  /// nothing else could be done.
  double take_wait_s() { return std::chrono::duration<double>(std::exchange(waited_, {})).count(); }

  /// Whether the ranks share the elements out among themselves, and so must share the memory of
  /// what they make of them; else every rank consumes all of them. See Allreduce.
  bool consumes_shares() const { return allreduce_.consumes_shares(); }

  /// The compression with its state between steps, or null.
  CompressedSum* compressed() { return compressed_.get(); }

 private:
  /// The transfer of a bucket in this step, in pieces.
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
  std::vector<size_t> height_of_;  // the stack's height below each leaf
  std::vector<Bucket> buckets_;
  size_t piece_elements_;
  std::vector<std::string> bucket_names_;
  std::vector<size_t> bucket_of_;  // by parameter
  bool priority_;
  bool holds_ = false;
  std::unique_ptr<CompressedSum> compressed_;
  Allreduce allreduce_;
  AlignedFloats waiting_;           // stack entries above the parts of this rank
  std::vector<size_t> missing_;     // unready parameters of each bucket in this step
  std::vector<Departure> started_;  // the first buckets, in this step
  Timeline::Clock::duration waited_{};
  Timeline silent_;
  Timeline* timeline_;
};

}  // namespace dlflow::runtime
