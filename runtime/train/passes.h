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

/// The forward and backward passes of this rank's leaves in one step. The reducer gets their
/// gradients of the mean loss over the samples of the step.
class Passes {
 public:
  virtual ~Passes() = default;

  /// The part that may run while the previous step's sums still arrive: the forward pass of the
  /// first leaf, which waits for each layer's weights; of all leaves, if they are joint. `leaves`
  /// must stay unchanged until backward() returns. `weight`: the divisor of the step's sum of
  /// losses over `samples` samples.
  virtual void forward(std::span<const Leaf> leaves, size_t samples, size_t weight) = 0;

  /// The rest, once the reducer has begun the step: the remaining forward passes and all backward
  /// passes. Writes the report of each leaf before its backward pass. Returns this rank's share of
  /// the loss.
  virtual float backward(ReportSlot& report) = 0;

  /// The first layer whose result was not finite; set once a loss was not finite.
  const std::string& diverged_in() const { return diverged_in_; }

 protected:
  /// Must be called between the two passes of `network`.
  void look_at(float loss, Network& network) {
    if (!std::isfinite(loss) && diverged_in_.empty()) diverged_in_ = network.first_not_finite();
  }

 private:
  std::string diverged_in_;
};

struct PassesOptions {
  Division division;
  bool exact = true;   ///< a leaf's gradient depends on that leaf alone
  bool joint = false;  ///< batch normalisation is over the global batch
  uint64_t seed = 0;   ///< for random numbers within networks
};

/// Whether the passes themselves add up the leaves' gradients of some parameters
/// (ReducerOptions::caller_adds_leaves): those of OuterProducts, if leaves are small. The same on
/// all ranks.
bool add_leaves(const NetworkSet& networks, const PassesOptions& options);

/// Computes one leaf after the other in one network's memory. Joint leaves run side by side, each
/// in its own memory, from one batch normalisation to the next; both calls are then collective.
/// `noise` gets the gradients of each leaf. The arguments must outlive the result.
std::unique_ptr<Passes> make_passes(Communicator& comm, NetworkSet& networks, Reducer& reducer,
                                    NoiseMeter& noise, const PassesOptions& options);

}  // namespace dlflow::runtime
