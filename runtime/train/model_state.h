#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/optim/optimizer.h"
#include "runtime/settings/update.h"
#include "runtime/train/training_state.h"
#include "runtime/train/whole_update.h"

namespace dlflow::runtime {

/// The state that training changes: weights, running statistics, the optimizer's state; and, behind
/// the last parameter of the layout, a report: numbers that ranks tell each other in every step.
/// Ranks of one node can have it in common: then each updates a share (Reducer::consumes_shares).
class ModelState {
 public:
  /// Zeros. Collective over the node if `shared`. `comm` and `layout` must outlive this.
  ModelState(Communicator& comm, const WeightLayout& layout, size_t report_floats,
             const UpdateSettings& settings, bool shared);

  /// Whether this rank fills in what all of its node then have; they wait for it at a barrier.
  bool is_filled_here() const { return is_filled_here_; }

  /// In the layout: trainable parameters, running statistics, what is frozen.
  std::span<float> weights() { return values_.first(layout_.size()); }

  /// What the training results in: the weights, or with `ema` their running mean, statistics
  /// included.
  std::span<const float> result() const {
    return averaged_.empty() ? values_.first(layout_.size()) : averaged_;
  }

  /// The weights are filled with their first values.
  void begin();

  /// The sums of the last step.
  std::span<const float> report() const { return values_.subspan(layout_.size()); }

  /// Number of updates that the optimizer has made, the one under way included.
  uint64_t updates() const { return updates_; }
  void set_updates(uint64_t updates) { updates_ = updates; }

  /// The optimizer's state on this rank: the i-th number of each belongs to the i-th weight,
  /// unless ranks have shards.
  std::span<const std::span<float>> optimizer_buffers() const { return trained_.state; }

  /// The optimizer's state, as it goes to a checkpoint. Collective if ranks have shards of it,
  /// which only rank 0 then has the whole of.
  struct OptimizerContent {
    std::vector<NamedBuffer> buffers;
    std::vector<HugeBuffer> gathered;  ///< what they lie in, if not in this state
  };
  OptimizerContent optimizer_content();

  /// Of what the optimizer keeps, this rank's part of what its node has.
  size_t optimizer_bytes() const;

  /// Goes on from `checkpoint`, where `updates` had been made. Every rank calls it.
  void restore(const Checkpoint& checkpoint, uint64_t updates);

  /// take() from now on is of the next update.
  void begin_update(double learning_rate);

  /// Elements [first, first + sums.size()) make a step: weights go down the gradient that `sums`
  /// is, statistics towards those of the batch, and the report, which is behind what is exchanged,
  /// becomes the sums. Each element once per step, in whatever pieces.
  void take(size_t first, std::span<const float> sums);

  /// Whether weights wait for the whole gradient: then finish_update() follows once all was taken.
  bool waits_for_all() const { return whole_ != nullptr; }

  /// Collective.
  void finish_update();

  /// All weights that were updated are finite numbers: on this rank, and on those that it shares
  /// the state with.
  bool finite() const;

 private:
  std::span<float> allocate(size_t floats, bool shared);
  HugeBuffer gather_on_rank_0(std::span<const float> shard);
  void take_gradients(size_t first, std::span<const float> sums);
  void update(size_t first, std::span<const float> gradients, const LayerTerms& terms);
  void update_layer_by_layer(size_t first, std::span<const float> gradients);
  void average(size_t first, size_t count);

  Communicator& comm_;
  const WeightLayout& layout_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::string> buffer_names_;
  uint64_t updates_ = 0;
  bool is_filled_here_;
  HugeBuffer own_;                 // unless it is shared
  std::vector<LayerSlot> layers_;  // without a gap
  bool decays_vectors_;
  bool all_alike_;  // every layer takes the same step
  StateSharing sharing_;
  std::unique_ptr<WholeUpdate> whole_;  // if weights wait for the whole gradient
  double ema_;
  std::span<float> values_;
  std::span<float> averaged_;   // the running mean of the weights; empty without
  std::span<float> gradients_;  // those of all elements, if whole_
  TrainedBuffers trained_;
  std::span<float> broken_;  // a cache line for each rank that shares it: 1 where it met no number
  float* broken_here_;       // this rank's
};

}  // namespace dlflow::runtime
