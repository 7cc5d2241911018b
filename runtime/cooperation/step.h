#pragma once

#include <cstdint>

/// A rank's steps, and where all ranks are together.
namespace dlflow::runtime {

/// A rank's report after a step; ranks that meet add theirs.
struct StepReport {
  float loss = 0;   ///< not finite: this rank's part of the training has diverged
  float stops = 0;  ///< above 0: somebody asked to stop
  float saves = 0;  ///< above 0: a checkpoint is due by the clock

  bool calls_for_meeting() const;
};

/// A step that a rank made.
struct OwnStep {
  StepReport report;

  /// The learning rate with which its gradient counts among those of all ranks; 0: it had no
  /// samples in this step.
  double rate = 0;
};

/// Makes one rank's steps.
class Stepper {
 public:
  virtual ~Stepper() = default;

  /// Makes the next step: a gradient from the rank's weights and, unless others make it, the
  /// update.
  virtual OwnStep step() = 0;
};

/// All ranks are together, after `done` steps of the run: state() is the same on all.
struct Meeting {
  uint64_t done = 0;
  StepReport report;  ///< summed over ranks
};

}  // namespace dlflow::runtime
