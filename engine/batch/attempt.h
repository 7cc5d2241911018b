#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "engine/batch/allocation.h"
#include "engine/plan/job.h"

namespace dlflow {

/// One attempt of a job, with the record of its earlier passes.
class Attempt {
 public:
  /// Makes its folder and job.json, unless they exist.
  Attempt(JobSpec spec, int number);

  const JobSpec& spec() const { return spec_; }
  int number() const { return number_; }
  const std::filesystem::path& directory() const { return directory_; }

  /// The last state on record.
  std::optional<JobState> state() const { return last_ ? last_->state : std::nullopt; }
  /// The exit status of its program in that state.
  std::optional<int> exit() const { return last_ ? last_->exit : std::nullopt; }
  bool has_ended() const { return last_ && is_final(*last_->state); }
  int failed_tries() const { return failed_tries_; }
  /// Whether SIGTERM ended the last pass: the last event is a note without a state.
  bool was_stopped() const { return stopped_; }
  /// Whether it also saved a checkpoint before.
  bool has_saved() const;
  /// The node whose failure ended that pass, possibly without a name. Read from the launcher's
  /// output, if SIGTERM left the supervisor no time to record it.
  std::optional<std::string> lost_node() const;
  /// The walltime of the next pass, if an earlier one timed out and it grows; 0: as the job asks.
  std::chrono::seconds walltime() const { return walltime_; }
  /// Whether the last pass timed out, and the next one is longer.
  bool wants_more_time() const { return last_ && last_->walltime.count() > 0; }

  /// Reads its record again.
  void read();

  /// Adds `event`, with time, node and allocation, to the record; it is on disk then.
  void record(JobEvent event, const Allocation& allocation) const;

 private:
  JobSpec spec_;
  int number_;
  std::filesystem::path directory_;
  std::optional<JobEvent> last_;  // with a state
  int failed_tries_ = 0;
  bool stopped_ = false;
  std::string lost_node_;
  std::optional<uint64_t> earlier_error_bytes_;
  std::chrono::seconds walltime_{0};
  std::optional<int> stopped_exit_;
};

}  // namespace dlflow
