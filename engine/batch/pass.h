#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "engine/batch/allocation.h"
#include "engine/batch/attempt.h"
#include "engine/supervisor/watch.h"

namespace dlflow {

/// How a pass of an attempt ended, for the job that it is in.
enum class PassEnd {
  Over,        ///< the record says how
  RunsAgain,   ///< the record says so
  NotOurs,     ///< another job has the attempt, or a parent of it
  Stopped,     ///< by SIGTERM
  Lost,        ///< the pass before had no end, and none follows
  Unrecorded,  ///< its end could not be recorded
};

/// Facts that all passes of one task share.
struct TaskPasses {
  bool is_shared = false;  ///< several attempts, one after the other
  /// Until then the records of parents may be hidden by a network file system.
  std::chrono::steady_clock::time_point parents_show;
  std::function<void(StopCause)> hear = {};  ///< see SupervisorOptions; empty: one attempt
  uint64_t more_memory_bytes = 0;            ///< that a next pass gets; result
};

/// Runs the next pass of `attempt`, if it is ours to run: no other job has the attempt, and no
/// parent is still at work. A pass before it that left no end is recorded first, as a failed try or
/// as the end.
PassEnd run_pass(Attempt& attempt, TaskPasses& task, const Allocation& allocation);

}  // namespace dlflow
