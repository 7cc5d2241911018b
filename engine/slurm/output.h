#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

/// What sbatch, squeue and sacct print -> values. Nothing here fails: a line that is not as
/// expected (a banner of the site, half a line, a header) is passed over.
namespace dlflow {

enum class SlurmState {
  Pending,
  Configuring,  ///< nodes boot
  Running,
  Suspended,
  Completing,  ///< its processes are ending; how it ended is not known yet
  Requeued,    ///< goes back to pending
  Held,        ///< requeued, and waits for somebody to release it
  Completed,
  Failed,
  Cancelled,
  Timeout,
  OutOfMemory,
  NodeFail,
  Preempted,
  BootFail,
  Deadline,
  Revoked,
  Unknown,  ///< a word that no version we know prints
};

/// "pending", "out of memory", …: for people.
std::string_view words(SlurmState state);

/// SLURM will do nothing more with the job by itself. False for Unknown.
bool is_over(SlurmState state);

/// "PENDING", "PD", "CANCELLED by 1000", "OUT_OF_ME+".
SlurmState slurm_state(std::string_view text);

/// One job, or one task of a job array. What a tool did not say is empty or absent.
struct SlurmJob {
  std::string id;  ///< "812", "812_3"
  std::string name;
  SlurmState state = SlurmState::Unknown;
  std::string reason;      ///< squeue: why it is pending, or how it ended: "Resources"
  std::string dependency;  ///< squeue: "afterok:811(unfulfilled)"
  std::string node;        ///< a list of nodes: "alpha-n[1-2]"
  std::optional<std::chrono::seconds> elapsed;
  std::optional<std::chrono::seconds> limit;  ///< absent: unlimited, or not said
  std::optional<Time> start;                  ///< squeue, of a pending job: when it is expected to
  std::optional<Time> end;
  std::optional<int> exit;   ///< sacct: exit status of the batch script
  int signal = 0;            ///< sacct: the signal that ended it; 0: none
  std::string cancelled_by;  ///< sacct: the number of the user who cancelled it; SlurmTools makes
                             ///< a name of it
  int cpus = 0;              ///< sacct: allocated; 0: not said
  std::optional<std::chrono::milliseconds> cpu_time;  ///< sacct: of all its processes
  uint64_t max_memory_bytes = 0;  ///< sacct: of the largest task of a step times its tasks, of the
                                  ///< step with most (what seff estimates); 0: not measured

  bool operator==(const SlurmJob&) const = default;
};

/// What SLURM gives as the signal of a job whose `--output` could not be created on the node: its
/// folder is missing there, or not writable. Nothing of the job ran.
inline constexpr int kOutputNotWritable = 53;

/// Why a job is pending that waits for one which SLURM takes as failed: it never starts.
inline constexpr std::string_view kNeverSatisfied = "DependencyNeverSatisfied";

/// How it ended, for people, empty while it has not: "out of memory", "walltime of 20:00 reached",
/// "cancelled by user 1000", "exit 3".
std::string ending_in_words(const SlurmJob& job);

/// "812" of "812_3" and "812".
std::string_view array_id(std::string_view id);
/// 3 of "812_3"; nothing of "812".
std::optional<uint32_t> array_task(std::string_view id);

/// The id in what `sbatch --parsable` printed: the last line that is one ("812", "812;alpha", also
/// "Submitted batch job 812" of a wrapper that drops --parsable), whatever stands around it.
std::optional<std::string> submitted_id(std::string_view sbatch_stdout);

/// Columns for `squeue --noheader -o` and `sacct --noheader --parsable2 -o`. What a user can choose
/// (the name) comes last: the separator in it does no harm. Of sacct only columns that every
/// version has, since it refuses a list with one that it does not know.
inline constexpr const char* kSqueueFormat = "%i|%T|%M|%l|%S|%e|%N|%E|%r|%j";
inline constexpr const char* kSacctFormat =
    "JobID,State,ExitCode,Elapsed,Timelimit,Start,End,NodeList,AllocCPUS,TotalCPU,MaxRSS,NTasks,"
    "JobName";

/// Both read times as UTC (the tools are run with TZ=UTC), expand array ranges ("812_[3-9%2]" is
/// seven jobs) and give the jobs in the order of the text, each id once, its last line. Of more
/// than kMaxExpandedTasks tasks in ranges the rest stays out.
inline constexpr size_t kMaxExpandedTasks = 200'000;
std::vector<SlurmJob> parse_squeue(std::string_view text);
/// Lines of steps ("812.batch") add their memory to their job.
std::vector<SlurmJob> parse_sacct(std::string_view text);
/// Of `scontrol --oneliner show job ID`: id, name, state and how it ended, no more.
std::vector<SlurmJob> parse_show_job(std::string_view text);

/// "1-02:03:04", "03:04", "00:01.250"; nothing for "UNLIMITED", "INVALID", "Partition_Limit".
std::optional<std::chrono::milliseconds> parse_slurm_duration(std::string_view text);

/// "2026-11-21T08:00:00" in UTC, or seconds since 1970; nothing for "N/A", "Unknown", "None".
std::optional<Time> parse_slurm_time(std::string_view text);

}  // namespace dlflow
