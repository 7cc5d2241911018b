#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "base/file.h"
#include "engine/plan/job.h"

namespace dlflow {

/// RUN/ends/BOOT-PID.jsonl: how passes ended that left no output, a line each. One sync makes many
/// of them survive a power cut (databases call that group commit). The events.jsonl of such an
/// attempt is not synced: what a power cut takes from it, restore_ends() puts back from here.
///
/// Several processes may append to one file. Throws Error naming the file.
class EndsLog {
 public:
  /// \param writer  the process whose children write to this file.
  EndsLog(const std::filesystem::path& run_directory, pid_t writer);

  /// \param end  with job and attempt; of the attempt's first pass, with its final state.
  void append(const JobEvent& end);

  /// Returns when every line that was appended before would survive a power cut.
  void sync();

 private:
  std::filesystem::path path_;
  AppendFile file_;
  bool is_named_ = false;  // its name would survive, too
};

/// Whether the run has a job of that name.
using HasJob = std::function<bool(const std::string& job)>;

/// Gives each attempt that is in a log of an earlier boot the end that it had, unless it still has
/// one: the folders, its events.jsonl, and the link to its outputs. What was read of a log is not
/// read again. For whoever holds RunLock.
void restore_ends(const std::filesystem::path& run_directory, const HasJob& has_job);

}  // namespace dlflow
