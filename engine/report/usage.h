#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/report/spans.h"
#include "engine/store/run_status.h"

/// The share of their resources that jobs used, as in SLURM's `seff`.
namespace dlflow {

/// Usage from the job's own record: the supervisor's measurements of the latest attempt, over all
/// its passes. Nothing if no pass has ended.
std::optional<JobUsage> recorded_usage(std::span<const JobEvent> events);

/// Processor time over elapsed time times processors: 0 to 1, or slightly more.
std::optional<double> cpu_efficiency(const JobRow& job);

/// Peak memory over the requested memory.
std::optional<double> memory_efficiency(const JobRow& job);

/// Sentences that recommend other resources, judged by what the job used. Empty if its request fits
/// or its use is unknown. A shorter walltime is recommended only `in_queue`, where it lets jobs
/// start sooner, and only to long jobs.
std::vector<std::string> advice_for(const JobRow& job, std::span<const JobSpan> spans,
                                    bool in_queue = true);

}  // namespace dlflow
