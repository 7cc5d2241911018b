#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "engine/batch/allocation.h"
#include "engine/batch/attempt.h"
#include "engine/supervisor/watch.h"

namespace dlflow {

/// The end of a pass of an attempt, for its job.
enum class PassEnd {
  Over,        ///< as the record shows
  RunsAgain,   ///< as the record shows
  NotOurs,     ///< another job has the attempt, or a parent of it
  Stopped,     ///< by SIGTERM
  Lost,        ///< the pass before had no end, and none follows
  Unrecorded,  ///< its end could not be recorded
};

/// Facts that all passes of one task share.
struct TaskPasses {
  bool is_shared = false;  ///< several attempts, one after the other
  /// Until then a network file system may hide the records of parents.
  std::chrono::steady_clock::time_point parents_show;
  std::function<void(StopCause)> hear = {};  ///< see SupervisorOptions; empty: one attempt
  uint64_t more_memory_bytes = 0;            ///< of the next pass; result
};

/// Runs the next pass of `attempt`, unless another job has the attempt or a parent is still at
/// work. An earlier pass without an end is recorded first, as a failed try or as the end.
PassEnd run_pass(Attempt& attempt, TaskPasses& task, const Allocation& allocation);

}  // namespace dlflow
