#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>

#include "runtime/data/loader.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/network_set.h"
#include "runtime/train/noise_meter.h"
#include "runtime/train/report_slot.h"

namespace dlflow::runtime {

/// The forward and backward passes of this rank's leaves in one step. Their gradients go to the
/// reducer, as those of the mean loss over the samples of the step.
class Passes {
 public:
  virtual ~Passes() = default;

  /// The part that may run while the last step's sums still come in: the forward pass of the first
  /// leaf, which waits for each layer's weights; of all leaves, if they are joint. `leaves` stay as
  /// they are until backward() returns. `weight`: what the sum of losses of the step, of `samples`
  /// samples, is divided by.
  virtual void forward(std::span<const Leaf> leaves, size_t samples, size_t weight) = 0;

  /// The rest, once the reducer has begun the step: backward passes, and both of further leaves.
  /// Writes the report of each leaf before its backward pass. Returns this rank's share of the
  /// loss.
  virtual float backward(ReportSlot& report) = 0;

  /// The first layer with a result that was no finite number, once there was such a loss.
  const std::string& diverged_in() const { return diverged_in_; }

 protected:
  /// To be called between the two passes of `network`.
  void look_at(float loss, Network& network) {
    if (!std::isfinite(loss) && diverged_in_.empty()) diverged_in_ = network.first_not_finite();
  }

 private:
  std::string diverged_in_;
};

struct PassesOptions {
  Division division;
  bool exact = true;   ///< what a leaf's gradient is depends on the leaf alone
  bool joint = false;  ///< batch normalisation is that of the global batch
  uint64_t seed = 0;   ///< of random numbers within networks
};

/// Whether the gradients of the leaves of some parameters are added up by the passes themselves
/// (ReducerOptions::caller_adds_leaves): those that OuterProducts makes, if leaves are small. All
/// ranks have the same answer.
bool add_leaves(const NetworkSet& networks, const PassesOptions& options);

/// One leaf after the other in one network's memory; or, if they are joint, all side by side, each
/// in memory of its own, from one batch normalisation to the next: then both calls are collective.
/// `noise` is shown the gradients of each leaf. What is given must outlive the result.
std::unique_ptr<Passes> make_passes(Communicator& comm, NetworkSet& networks, Reducer& reducer,
                                    NoiseMeter& noise, const PassesOptions& options);

}  // namespace dlflow::runtime
