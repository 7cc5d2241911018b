#pragma once

#include <cstddef>
#include <span>

#include "runtime/cooperation/step.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/noise_meter.h"

namespace dlflow::runtime {

/// The message of every rank to all others in a step, in a slot behind the last parameter. It is
/// summed with the gradients, so that no further message is needed.
class ReportSlot {
 public:
  static constexpr size_t kFloats = 16;

  /// A rank's part, besides the losses of its leaves.
  struct OfRank {
    StepReport wishes;
    float data_wait_s = 0;
    float communication_wait_s = 0;  ///< in the previous step
  };
  /// The sums over all ranks of the team.
  struct Sums {
    StepReport report;
    float data_wait_s = 0;
    float communication_wait_s = 0;
  };

  /// The slot is the reducer's last parameter. Both must outlive this.
  ReportSlot(Reducer& reducer, NoiseMeter& noise)
      : reducer_(reducer), noise_(noise), parameter_(reducer.layout().num_parameters() - 1) {}

  /// Sets the rank's part, which is sent with its first leaf of this step.
  void begin_step(const OfRank& of_rank) { of_rank_ = of_rank; }

  /// Called before the backward pass of `leaf`. Every leaf once per step, in order.
  void write(size_t leaf, float loss) {
    const OfRank with_leaf = leaf == 0 ? of_rank_ : OfRank{};
    const std::span<float> slot = reducer_.gradient(leaf, parameter_);
    slot[0] = loss;
    slot[1] = with_leaf.wishes.stops;
    slot[2] = with_leaf.wishes.saves;
    slot[3] = with_leaf.data_wait_s;
    slot[4] = with_leaf.communication_wait_s;
    noise_.write(leaf, slot.subspan<kOwnFloats, NoiseMeter::kReportFloats>());
    reducer_.ready(leaf, parameter_);
  }

  /// Waits for the sums, which `slot` then holds, and returns them.
  Sums read(std::span<const float> slot) {
    reducer_.wait(parameter_);
    noise_.read(slot.subspan<kOwnFloats, NoiseMeter::kReportFloats>());
    return {{slot[0], slot[1], slot[2]}, slot[3], slot[4]};
  }

 private:
  static constexpr size_t kOwnFloats = 5;  // the noise meter's floats follow
  static_assert(kOwnFloats + NoiseMeter::kReportFloats <= kFloats);

  Reducer& reducer_;
  NoiseMeter& noise_;
  size_t parameter_;
  OfRank of_rank_;
};

}  // namespace dlflow::runtime
