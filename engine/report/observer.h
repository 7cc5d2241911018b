#pragma once

#include "base/clock.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

namespace dlflow {

/// The receiver of a run's announcements while the engine works on it; terminal and JSON output
/// implement it. All calls come from the engine's thread, which waits for them: they must be quick.
/// Implementations: engine/cli's, tests/support/RecordingObserver.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Called once, before the first event. `plan` lives until ended(). `status` says what is known
  /// already: of a new run every job is planned, of a resumed one some have ended.
  virtual void began(const Plan& plan, const RunStatus& status) = 0;

  /// The plan has other jobs now: a step has listed what others run once for each of.
  virtual void extended(const Plan& plan, const RunStatus& status) = 0;

  /// A job changed its state, or (without a state) a note about it. On disk by now.
  virtual void event(const JobEvent& event) = 0;

  /// About five times a second while jobs run.
  virtual void tick(Time now) = 0;

  /// The first interruption was seen: running jobs were asked to save and end, nothing new starts.
  virtual void stopping() = 0;

  /// Called once, after the last event.
  virtual void ended(RunState state, Time at) = 0;
};

}  // namespace dlflow
