#pragma once

#include <cstddef>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/optim/sgd.h"

namespace dlflow::runtime {

/// What training changes: weights, running statistics, the optimizer's velocities; and, behind the
/// last parameter of the layout, a report: numbers that ranks tell each other in every step. Ranks
/// of one node can have it in common: then each updates a share (Reducer::consumes_shares).
class ModelState {
 public:
  /// Zeros. Collective over the node if `shared`. `comm` must outlive this.
  ModelState(Communicator& comm, const WeightLayout& layout, size_t report_floats,
             const SgdOptions& options, bool shared);

  /// Whether this rank fills in what all of its node then have; they wait for it at a barrier.
  bool is_filled_here() const { return is_filled_here_; }

  /// In the layout: trainable parameters, then running statistics.
  std::span<float> weights() { return values_.first(weights_size_); }
  std::span<float> velocity() { return velocity_; }

  /// The sums of the last step.
  std::span<const float> report() const { return values_.subspan(weights_size_); }

  /// Elements [first, first + sums.size()) make a step: weights go down the gradient that `sums`
  /// is, statistics towards those of the batch, and the report becomes the sums. Each element once
  /// per step, in whatever pieces.
  void update(size_t first, std::span<const float> sums, float learning_rate);

  /// All weights that were updated are finite numbers: on this rank, and on those that it shares
  /// the state with.
  bool finite() const;

 private:
  SgdOptions options_;
  size_t trainable_size_, weights_size_;
  bool is_filled_here_;
  HugeBuffer own_;  // unless it is shared
  std::span<float> values_, velocity_;
  std::span<float> broken_;  // a cache line for each rank that shares it: 1 where it met no number
  float* broken_here_;       // this rank's
};

}  // namespace dlflow::runtime
