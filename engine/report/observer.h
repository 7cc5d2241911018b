#pragma once

#include "base/clock.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

namespace dlflow {

/// Receives a run's events while the engine works on it; terminal and JSON output implement it. All
/// calls come from the engine's thread, which waits for them, so they must be quick.
/// Implementations: engine/cli's, tests/support/RecordingObserver.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Called once, before the first event. `plan` lives until ended(). `status` is the state so far:
  /// in a new run every job is planned, in a resumed one some have ended.
  virtual void began(const Plan& plan, const RunStatus& status) = 0;

  /// The plan has other jobs now: a step has listed the elements of later steps.
  virtual void extended(const Plan& plan, const RunStatus& status) = 0;

  /// A job changed its state or, without a state, got a note. The event is already on disk.
  virtual void event(const JobEvent& event) = 0;

  /// About five times a second while jobs run.
  virtual void tick(Time now) = 0;

  /// The first interruption was received: running jobs were asked to save and end, and no job
  /// starts.
  virtual void stopping() = 0;

  /// Called once, after the last event.
  virtual void ended(RunState state, Time at) = 0;
};

}  // namespace dlflow
