#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "engine/batch/batch_job.h"
#include "engine/batch/batch_system.h"

/// Parsers of the output of sbatch, squeue and sacct. None fails: they skip unexpected lines (a
/// banner of the site, half a line, a header).
namespace dlflow {

/// "PENDING", "PD", "CANCELLED by 1000", "OUT_OF_ME+".
BatchState slurm_state(std::string_view text);

/// The signal that SLURM reports for a job whose `--output` could not be created on the node,
/// because the folder is missing or not writable. Nothing of the job ran.
inline constexpr int kOutputNotWritable = 53;

/// SLURM's reason for a pending job whose dependency has failed: the job never starts.
inline constexpr std::string_view kNeverSatisfied = "DependencyNeverSatisfied";

/// The id printed by `sbatch --parsable`: the last line that is one ("812", "812;alpha", or
/// "Submitted batch job 812" from a wrapper that drops --parsable). Ignores other lines.
std::optional<std::string> submitted_id(std::string_view sbatch_stdout);

/// Columns for `squeue --noheader -o` and `sacct --noheader --parsable2 -o`. The name, which users
/// choose, comes last, so that a separator in it is harmless. sacct rejects lists with unknown
/// columns, so only those that every version has are used.
inline constexpr const char* kSqueueFormat = "%i|%T|%M|%l|%S|%e|%N|%E|%r|%V|%j";
inline constexpr const char* kSacctFormat =
    "JobID,State,ExitCode,Elapsed,Timelimit,Start,End,NodeList,AllocCPUS,TotalCPU,MaxRSS,NTasks,"
    "ConsumedEnergyRaw,Submit,JobName";

/// parse_squeue and parse_sacct read times as UTC (the tools run with TZ=UTC) and expand array
/// ranges ("812_[3-9%2]" is seven jobs), up to kMaxExpandedTasks tasks. They return jobs in the
/// order of the text, with the last line of each id.
inline constexpr size_t kMaxExpandedTasks = 200'000;
std::vector<BatchJob> parse_squeue(std::string_view text);
/// Adds the memory and energy of steps ("812.batch") to their job.
std::vector<BatchJob> parse_sacct(std::string_view text);
/// Parses `scontrol --oneliner show job ID`: only id, name, submit time, state and end.
std::vector<BatchJob> parse_show_job(std::string_view text);

/// "1-02:03:04", "03:04", "00:01.250"; nothing for "UNLIMITED", "INVALID", "Partition_Limit".
std::optional<std::chrono::milliseconds> parse_slurm_duration(std::string_view text);
std::optional<std::chrono::seconds> whole_seconds(std::string_view text);

/// "2026-11-21T08:00:00" in UTC, or seconds since 1970; nothing for "N/A", "Unknown", "None".
std::optional<Time> parse_slurm_time(std::string_view text);

// The results of sbatch, scancel and scontrol.

/// Accepted only with an id and exit status 0.
SubmitAnswer sbatch_answer(const Output& output, std::chrono::milliseconds time_limit);

/// The result of scontrol or scancel.
JobAnswer job_answer(const Output& output);

/// Whether a retry may succeed: the controller did not answer, or the tool was killed.
bool is_transient(const Output& output);

}  // namespace dlflow
