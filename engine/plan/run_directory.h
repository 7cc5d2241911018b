#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/link_lock.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"

/// The folder of a run: the frozen plan (P6), and one folder per job with its attempts.
/// docs/contributor/store-format.md and docs/contributor/reference.md describe its content.
namespace dlflow {

/// Whether a run with this name exists already, in any folder.
using NameTaken = std::function<bool(const std::string& run)>;

/// Creates the folder of a run below `runs`, named after the workflow with eight more hexadecimal
/// digits, and sets `plan.run`, `plan.directory` and `plan.created`. It holds the text of the
/// workflow, the settings, and copies of all files that its steps read and of the programs
/// (share_program). It appears completely or not at all, even if syncing its name fails.
/// \param program  becomes bin/dlflow. Programs beside it that steps use, such as dlflow-train, are
/// added with their MPI plug-ins, and libdlflow_cuda.so if a step trains on GPUs.
/// \param taken    names to avoid; names in `runs` are avoided, too. Throws Error: NotFound if a
/// program is missing, with how to build it.
void create_run_directory(Plan& plan, const std::filesystem::path& runs, Time now,
                          const std::filesystem::path& program = "/proc/self/exe",
                          const NameTaken& taken = {});

/// Loads the frozen plan, with later changes (changes.h), from the folder alone. Throws Error:
/// NotFound if `directory` is not a run's, Corrupt if it is damaged or written by a newer dlflow.
Plan load_run(const std::filesystem::path& directory);

/// Copies the present inputs of the steps (`files` of `plan`) into a new folder of the run, sets
/// `plan.sources`, and switches plan.json to it atomically: a reader sees all of the old copies or
/// all of the new ones. The old ones stay for jobs submitted with them (P6). \param anew  jobs that
/// no longer take an earlier result. The caller must hold RunLock. Throws Error.
void replace_sources(Plan& plan, std::span<const uint32_t> anew);

/// The name of the run whose folder `directory` is. Throws like load_run.
std::string run_name(const std::filesystem::path& directory);

/// The profile that was frozen with the run. Throws like load_run.
Profile run_profile(const std::filesystem::path& directory);

/// The cluster that runs a run's jobs, since several clusters may share a home directory; nothing
/// if they run on one machine.
std::optional<std::string> cluster_of(const std::filesystem::path& run_directory);

/// The files of a run, as docs/contributor/reference.md lists them.
std::filesystem::path cluster_file(const std::filesystem::path& run_directory);
std::filesystem::path engine_events_file(const std::filesystem::path& run_directory);
std::filesystem::path frozen_program(const std::filesystem::path& run_directory,
                                     std::string_view name = "dlflow");
/// The frozen copy of the file that the workflow calls `name` (a key of Plan::files).
std::filesystem::path frozen_file(const Plan& plan, const std::string& name);
std::filesystem::path job_directory(const std::filesystem::path& run_directory, const JobName& job);
std::filesystem::path attempt_directory(const std::filesystem::path& job_directory, int attempt);

/// Creates `file` of a run with all of `content`, and its folder; returns false if the file exists,
/// and never replaces another process's. It survives a power cut after a sync_directory().
bool create_once(const std::filesystem::path& file, std::string_view content);

/// Creates attempt `attempt` of a job with its job.json and returns its folder. Completes one that
/// a killed engine left unfinished.
std::filesystem::path make_attempt(const Plan& plan, uint32_t job, int attempt);

/// The numbers of all attempts, ascending.
std::vector<int> attempts(const std::filesystem::path& job_directory);

/// The succeeded event of the attempt that `outputs` points to; nothing if none is published.
std::optional<JobEvent> published_result(const std::filesystem::path& job_directory);

/// Reads a growing events.jsonl: each call of read() returns the new events. A missing file has
/// none; a line torn by a crash is skipped.
class EventTail {
 public:
  explicit EventTail(std::filesystem::path file, uint64_t offset = 0)
      : file_(std::move(file)), offset_(offset) {}

  std::vector<JobEvent> read();

  /// The number of bytes read in whole lines, where another EventTail can continue.
  uint64_t offset() const { return offset_; }

 private:
  std::filesystem::path file_;
  uint64_t offset_ = 0;
};

/// The events of one attempt, with `job` and `attempt` filled in.
std::vector<JobEvent> attempt_events(const std::filesystem::path& job_directory, const JobName& job,
                                     int attempt);

/// The attempt's last event with a state; nothing if there is none.
std::optional<JobEvent> last_state(const std::filesystem::path& job_directory, const JobName& job,
                                   int attempt);

/// RUN/lock: its holder is the only engine of a run. Released by the destructor, or by the kernel
/// when the process dies. If the file system has no flock(2), or one that other nodes do not see,
/// RUN/lock.owner is the lock (see link_lock.h).
class RunLock {
 public:
  /// Waits up to `patience`, since `status` holds the lock while it reads. Throws
  /// Error{Unavailable} naming the process that holds it.
  explicit RunLock(const std::filesystem::path& run_directory,
                   std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// Returns nothing if another process holds it.
  static std::optional<RunLock> try_acquire(const std::filesystem::path& run_directory);

 private:
  RunLock(FileDescriptor file, std::optional<LinkLock> link)
      : file_(std::move(file)), link_(std::move(link)) {}

  FileDescriptor file_;
  std::optional<LinkLock> link_;
};

}  // namespace dlflow
