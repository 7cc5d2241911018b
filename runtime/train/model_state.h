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

/// The state that training changes: weights, running statistics and the optimizer's state. Behind
/// the last parameter of the layout lies a report: numbers that ranks exchange in every step. The
/// ranks of one node can share a single copy; then each updates a part (Reducer::consumes_shares).
class ModelState {
 public:
  /// All zeros. Collective over the node if `shared`. `comm` and `layout` must outlive this.
  ModelState(Communicator& comm, const WeightLayout& layout, size_t report_floats,
             const UpdateSettings& settings, bool shared);

  /// Whether this rank must fill in the state; ranks that share it wait at a barrier.
  bool is_filled_here() const { return is_filled_here_; }

  /// In the layout's order: trainable parameters, running statistics, frozen parameters.
  std::span<float> weights() { return values_.first(layout_.size()); }

  /// The result of the training: the weights, or with `ema` their running mean, statistics
  /// included.
  std::span<const float> result() const {
    return averaged_.empty() ? values_.first(layout_.size()) : averaged_;
  }

  /// Must be called once the weights have their first values.
  void begin();

  /// The report summed in the last step.
  std::span<const float> report() const { return values_.subspan(layout_.size()); }

  /// The number of updates that the optimizer has made, including the one under way.
  uint64_t updates() const { return updates_; }
  void set_updates(uint64_t updates) { updates_ = updates; }

  /// The optimizer's state on this rank. The i-th number of each buffer belongs to the i-th weight,
  /// unless ranks have shards.
  std::span<const std::span<float>> optimizer_buffers() const { return trained_.state; }

  /// The optimizer's state, as saved in a checkpoint. Collective if ranks have shards; then only
  /// rank 0 gets the whole state.
  struct OptimizerContent {
    std::vector<NamedBuffer> buffers;
    std::vector<HugeBuffer> gathered;  ///< memory of the buffers, if they are not in this state
  };
  OptimizerContent optimizer_content();

  /// The bytes of the optimizer's state on this rank; its share of them if the node has one copy.
  size_t optimizer_bytes() const;

  /// Continues from `checkpoint`, saved after `updates` updates. Every rank calls it.
  void restore(const Checkpoint& checkpoint, uint64_t updates);

  /// Begins the update that the next calls of take() belong to.
  void begin_update(double learning_rate);

  /// Updates elements [first, first + sums.size()). Weights go down the gradient in `sums`, running
  /// statistics move towards those of the batch, and the report, which follows the exchanged
  /// elements, is replaced. Each element once per step, in pieces of any size.
  void take(size_t first, std::span<const float> sums);

  /// Whether weights wait for the whole gradient: finish_update() must then follow the last take().
  bool waits_for_all() const { return whole_ != nullptr; }

  /// Ends the update, if waits_for_all(). Collective.
  void finish_update();

  /// True if all updated weights are finite, on this rank and on those that share its state.
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
  HugeBuffer own_;                 // empty if the state is shared
  std::vector<LayerSlot> layers_;  // without gaps
  bool decays_vectors_;
  bool all_alike_;  // all layers take the same step
  StateSharing sharing_;
  std::unique_ptr<WholeUpdate> whole_;  // set if weights wait for the whole gradient
  double ema_;
  std::span<float> values_;
  std::span<float> averaged_;   // running mean of the weights; empty without `ema`
  std::span<float> gradients_;  // all gradients, if whole_ is set
  TrainedBuffers trained_;
  std::span<float> broken_;  // a cache line per sharing rank: 1 after a non-finite weight
  float* broken_here_;       // this rank's
};

}  // namespace dlflow::runtime
