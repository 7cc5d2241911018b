#pragma once

#include <cstdint>

/// A rank's steps, and the ranks' meetings.
namespace dlflow::runtime {

/// A rank's report after a step; ranks that meet add theirs.
struct StepReport {
  float loss = 0;   ///< not finite: this rank's part of the training has diverged
  float stops = 0;  ///< above 0: a rank was asked to stop
  float saves = 0;  ///< above 0: a checkpoint is due by the clock

  bool calls_for_meeting() const;
};

/// A step that a rank has taken.
struct OwnStep {
  StepReport report;

  /// The learning rate for its gradient among those of all ranks; 0: it had no samples in this
  /// step.
  double rate = 0;
};

/// Takes one rank's steps.
class Stepper {
 public:
  virtual ~Stepper() = default;

  /// Takes the next step: computes a gradient from the rank's weights and, unless other ranks do
  /// so, makes the update.
  virtual OwnStep step() = 0;
};

/// All ranks have met after `done` steps of the run: state() is the same on all.
struct Meeting {
  uint64_t done = 0;
  StepReport report;  ///< summed over ranks
};

}  // namespace dlflow::runtime
