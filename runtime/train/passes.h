#pragma once

#include <functional>
#include <memory>

#include "runtime/data/loader.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/network_set.h"
#include "runtime/train/noise_meter.h"

namespace dlflow::runtime {

/// The forward and backward passes of this rank's leaves in one step. Their gradients go to the
/// reducer, as those of the mean loss over the global batch.
class Passes {
 public:
  virtual ~Passes() = default;

  /// Returns this rank's share of the loss. `report(leaf, loss)` is called once per leaf, before
  /// its backward pass, to write what travels with the gradients.
  virtual float run(const Batch& batch,
                    const std::function<void(size_t leaf, float loss)>& report) = 0;
};

/// One leaf after the other in one network's memory; or, for batch normalisation over the global
/// batch of `num_leaves`, all side by side, each in memory of its own, from one batch normalisation
/// to the next: then run() is collective. `noise` is shown the gradients of each leaf. All that is
/// given must outlive the result.
std::unique_ptr<Passes> make_passes(Communicator& comm, NetworkSet& networks, Reducer& reducer,
                                    NoiseMeter& noise, size_t num_leaves, bool joint);

}  // namespace dlflow::runtime
