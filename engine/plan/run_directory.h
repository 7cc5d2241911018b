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

/// The folder of a run: the frozen plan (P6), and one folder per job with its attempts. What is in
/// it is in docs/contributor/store-format.md and docs/contributor/reference.md.
namespace dlflow {

/// Whether a run has this name already, wherever its folder is.
using NameTaken = std::function<bool(const std::string& run)>;

/// Creates the folder of a run below `runs`, named after the workflow with eight more hexadecimal
/// digits, and sets `plan.run`, `plan.directory` and `plan.created`: the text of the workflow, the
/// settings, copies of all files that its steps read, and of the programs (share_program). It is
/// there completely or not at all, also if its name cannot be made to survive a power cut.
/// \param program  becomes bin/dlflow, and from beside it dlflow-train and its like if a
///                 step uses them, with their plug-ins for MPI, and libdlflow_cuda.so if one trains
///                 on GPUs.
/// \param taken    names that are not used. A folder below `runs` takes its name, too.
/// Throws Error: NotFound if a program is missing, saying how to build it.
void create_run_directory(Plan& plan, const std::filesystem::path& runs, Time now,
                          const std::filesystem::path& program = "/proc/self/exe",
                          const NameTaken& taken = {});

/// The plan as it was frozen, with what changes.h changed since, from the folder alone. Throws
/// Error: NotFound if `directory` is not a run's, Corrupt if it is damaged or written by a newer
/// dlflow.
Plan load_run(const std::filesystem::path& directory);

/// Copies what the steps of `plan` read now (its `files`) into a new folder of the run, sets
/// `plan.sources`, and makes plan.json name all of it in one step: whoever loads the run before
/// sees the old copies, whoever loads it later the new ones. The old ones stay where they are, for
/// the jobs that were handed over with them (P6). \param anew  jobs that take no earlier result any
/// more. For whoever holds RunLock. Throws Error.
void replace_sources(Plan& plan, std::span<const uint32_t> anew);

/// The name of the run whose folder `directory` is. Throws as load_run.
std::string run_name(const std::filesystem::path& directory);

/// The profile that was frozen with the run. Throws as load_run.
Profile run_profile(const std::filesystem::path& directory);

/// The cluster that has a run's jobs, since a home directory may be that of several; nothing if
/// they run on one machine.
std::optional<std::string> cluster_of(const std::filesystem::path& run_directory);

/// The files of a run, as docs/contributor/reference.md lists them.
std::filesystem::path cluster_file(const std::filesystem::path& run_directory);
std::filesystem::path engine_events_file(const std::filesystem::path& run_directory);
std::filesystem::path frozen_program(const std::filesystem::path& run_directory,
                                     std::string_view name = "dlflow");
/// Where the copy of a file lies that the workflow calls `name` (a key of Plan::files).
std::filesystem::path frozen_file(const Plan& plan, const std::string& name);
std::filesystem::path job_directory(const std::filesystem::path& run_directory,
                                    std::string_view job);
std::filesystem::path attempt_directory(const std::filesystem::path& job_directory, int attempt);

/// Creates `file` of a run with all of `content`, and the folder that it is in; false if it is
/// there already: nobody else's is replaced. It survives a power cut after a sync_directory().
bool create_once(const std::filesystem::path& file, std::string_view content);

/// Creates attempt `attempt` of a job with its job.json and returns its folder. One that is there
/// already (a killed engine made it) is completed or left as it is.
std::filesystem::path make_attempt(const Plan& plan, uint32_t job, int attempt);

/// The numbers of the attempts there are, ascending.
std::vector<int> attempts(const std::filesystem::path& job_directory);

/// The succeeded event of the attempt that `outputs` points to; nothing if none is published.
std::optional<JobEvent> published_result(const std::filesystem::path& job_directory);

/// Reads a growing events.jsonl: each call of read() returns the events that are new. A file that
/// is not there has none; a torn line, which a crash left, is none.
class EventTail {
 public:
  explicit EventTail(std::filesystem::path file, uint64_t offset = 0)
      : file_(std::move(file)), offset_(offset) {}

  std::vector<JobEvent> read();

  /// How many bytes of whole lines were read: where another EventTail would go on.
  uint64_t offset() const { return offset_; }

 private:
  std::filesystem::path file_;
  uint64_t offset_ = 0;
};

/// The events of one attempt, `job` and `attempt` filled in.
std::vector<JobEvent> attempt_events(const std::filesystem::path& job_directory,
                                     std::string_view job, int attempt);

/// The last of them that has a state; nothing if none has.
std::optional<JobEvent> last_state(const std::filesystem::path& job_directory, std::string_view job,
                                   int attempt);

/// RUN/lock: whoever holds it is the one engine of a run. Released when destroyed, and by the
/// kernel when the process dies. Where the file system has no flock(2), or one that other nodes do
/// not see, RUN/lock.owner is the lock (see link_lock.h).
class RunLock {
 public:
  /// Waits a moment, since `status` holds it for as long as it reads. Throws Error{Unavailable}
  /// naming the process that holds it.
  explicit RunLock(const std::filesystem::path& run_directory,
                   std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// Nothing if another process holds it.
  static std::optional<RunLock> try_acquire(const std::filesystem::path& run_directory);

 private:
  RunLock(FileDescriptor file, std::optional<LinkLock> link)
      : file_(std::move(file)), link_(std::move(link)) {}

  FileDescriptor file_;
  std::optional<LinkLock> link_;
};

}  // namespace dlflow
