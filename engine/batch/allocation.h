#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/batch/batch_job.h"

/// The place where a job's task runs, and its requests to its batch system.
namespace dlflow {

/// The allocation of this process, as described by its batch system.
struct Allocation {
  std::string id;  ///< "812", "812_3"
  /// Asks the batch system to run this job again, as the same job. Throws Error if it cannot.
  std::function<void(const std::string& id)> requeue;
  /// Whether another job of ours waits or runs, as far as can be known.
  std::function<bool(const JobIdentity& job)> is_at_work;
  /// See SupervisorOptions.
  std::function<uint64_t()> memory_kills;
  uint64_t memory_bytes = 0;  ///< on each node; 0: not known per node
  /// Exit status of a job that is to run again: EX_TEMPFAIL, or the batch system's own.
  int requeue_status = 75;
  /// Statuses other than 0, 1 and that one have their own meanings for the batch system: a failed
  /// job ends with 1, whatever its program's exit status.
  bool reserves_statuses = false;
  std::vector<int> own_signals;  ///< see SupervisorOptions
  /// Gives a requeued job more memory, although it is being ended meanwhile. If that fails the job
  /// keeps its limit. Does not throw.
  std::function<void(const std::string& id, uint64_t bytes)> raise_memory;
  /// The same for its time limit.
  std::function<void(const std::string& id, std::chrono::minutes limit)> raise_time_limit;
  /// The time for which a network file system may hide files of other nodes. Longer than
  /// SupervisorOptions::look_again, so that each living supervisor renews its claim within it.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// The time for which a job waits for the controller when it asks for its next pass.
  std::chrono::milliseconds controller_patience = std::chrono::minutes(15);
};

/// Exit status of a task whose end is not on record.
constexpr int kNotRecorded = 1;

/// Exit status of a task that SIGTERM ended.
inline int stopped_status(const Allocation& allocation) {
  return allocation.reserves_statuses ? kNotRecorded : 128 + 15;
}

}  // namespace dlflow
