#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "base/file.h"
#include "engine/plan/job.h"

namespace dlflow {

/// RUN/ends/BOOT-PID.jsonl: a line for the end of each pass without output. One sync makes many of
/// them survive a power cut (databases call that group commit). The events.jsonl of such an attempt
/// is not synced; restore_ends() restores lost events from here.
///
/// Several processes may append to one file. Throws Error naming the file.
class EndsLog {
 public:
  /// \param writer  the process whose children write to this file.
  EndsLog(const std::filesystem::path& run_directory, pid_t writer);

  /// \param end  the final state of the attempt's first pass, with job and attempt.
  void append(const JobEvent& end);

  /// Returns once every line appended before would survive a power cut.
  void sync();

 private:
  std::filesystem::path path_;
  AppendFile file_;
  bool is_named_ = false;  // the file's name has been synced, too
};

/// Whether the run has a job of that name.
using HasJob = std::function<bool(const JobName& job)>;

/// Restores the end of each attempt that is in a log of an earlier boot and has lost its end: the
/// folders, its events.jsonl, and the link to its outputs. Lines restored before are not read
/// again. The caller must hold RunLock.
void restore_ends(const std::filesystem::path& run_directory, const HasJob& has_job);

}  // namespace dlflow
