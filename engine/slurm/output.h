#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "engine/batch/batch_job.h"
#include "engine/batch/batch_system.h"

/// Output of sbatch, squeue and sacct -> values. Nothing here fails: a line that is not as
/// expected (a banner of the site, half a line, a header) is passed over.
namespace dlflow {

/// "PENDING", "PD", "CANCELLED by 1000", "OUT_OF_ME+".
BatchState slurm_state(std::string_view text);

/// What SLURM gives as the signal of a job whose `--output` could not be created on the node: its
/// folder is missing there, or not writable. Nothing of the job ran.
inline constexpr int kOutputNotWritable = 53;

/// Why a job is pending that waits for one which SLURM takes as failed: it never starts.
inline constexpr std::string_view kNeverSatisfied = "DependencyNeverSatisfied";

/// The id in what `sbatch --parsable` printed: the last line that is one ("812", "812;alpha", also
/// "Submitted batch job 812" of a wrapper that drops --parsable), whatever stands around it.
std::optional<std::string> submitted_id(std::string_view sbatch_stdout);

/// Columns for `squeue --noheader -o` and `sacct --noheader --parsable2 -o`. What a user can choose
/// (the name) comes last: the separator in it does no harm. Of sacct only columns that every
/// version has, since it refuses a list with one that it does not know.
inline constexpr const char* kSqueueFormat = "%i|%T|%M|%l|%S|%e|%N|%E|%r|%V|%j";
inline constexpr const char* kSacctFormat =
    "JobID,State,ExitCode,Elapsed,Timelimit,Start,End,NodeList,AllocCPUS,TotalCPU,MaxRSS,NTasks,"
    "ConsumedEnergyRaw,Submit,JobName";

/// Both read times as UTC (the tools are run with TZ=UTC), expand array ranges ("812_[3-9%2]" is
/// seven jobs) and give the jobs in the order of the text, each id once, its last line. Of more
/// than kMaxExpandedTasks tasks in ranges the rest stays out.
inline constexpr size_t kMaxExpandedTasks = 200'000;
std::vector<BatchJob> parse_squeue(std::string_view text);
/// Lines of steps ("812.batch") add their memory and energy to their job.
std::vector<BatchJob> parse_sacct(std::string_view text);
/// Of `scontrol --oneliner show job ID`: id, name, submit time, state and how it ended, no more.
std::vector<BatchJob> parse_show_job(std::string_view text);

/// "1-02:03:04", "03:04", "00:01.250"; nothing for "UNLIMITED", "INVALID", "Partition_Limit".
std::optional<std::chrono::milliseconds> parse_slurm_duration(std::string_view text);

/// "2026-11-21T08:00:00" in UTC, or seconds since 1970; nothing for "N/A", "Unknown", "None".
std::optional<Time> parse_slurm_time(std::string_view text);

// The meaning of how an sbatch, scancel or scontrol ended.

/// Accepted only with an id and exit status 0.
SubmitAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit);

/// Of a scontrol or scancel that was answered.
JobAnswer job_answer(const Output& output);

/// The same command may succeed later: the controller did not answer, or the tool was killed.
bool is_transient(const Output& output);

}  // namespace dlflow
