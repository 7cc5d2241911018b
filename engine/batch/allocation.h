#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/batch/batch_job.h"

/// Where a job's task runs, and what it asks of its batch system.
namespace dlflow {

/// The allocation that this process is in, as its batch system tells it.
struct Allocation {
  std::string id;  ///< "812", "812_3"
  /// Has the batch system run this job again, as the same job. Throws Error if it cannot.
  std::function<void(const std::string& id)> requeue;
  /// Whether another job of ours waits or runs, as far as can be told.
  std::function<bool(const JobIdentity& job)> is_at_work;
  /// See SupervisorOptions.
  std::function<uint64_t()> memory_kills;
  uint64_t memory_bytes = 0;  ///< on each node; 0: not said per node
  /// Exit status of a job that is to run again: EX_TEMPFAIL, or what the batch system takes for
  /// that.
  int requeue_status = 75;
  /// Others than 0, 1 and that one have meanings of their own for the batch system: what failed
  /// ends with 1, whatever its program's exit status was.
  bool reserves_statuses = false;
  std::vector<int> own_signals;  ///< see SupervisorOptions
  /// Gives a job that was requeued more of it, although it is being ended meanwhile.
  /// Where that fails the job keeps what it had. Does not throw.
  std::function<void(const std::string& id, uint64_t bytes)> raise_memory;
  /// The same of its time limit.
  std::function<void(const std::string& id, std::chrono::minutes limit)> raise_time_limit;
  /// How long a network file system may hide what other nodes wrote. Longer than
  /// SupervisorOptions::look_again, so that within it each living supervisor renews its claim.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// How long the controller may be away while a job asks for its next pass.
  std::chrono::milliseconds controller_patience = std::chrono::minutes(15);
};

/// Exit status of a task whose end is not on record.
constexpr int kNotRecorded = 1;

/// Exit status of a task that SIGTERM ended.
inline int stopped_status(const Allocation& allocation) {
  return allocation.reserves_statuses ? kNotRecorded : 128 + 15;
}

}  // namespace dlflow
