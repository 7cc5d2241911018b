#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/report/spans.h"
#include "engine/store/run_status.h"

/// The share of their resources that jobs used, in the terms of SLURM's `seff`.
namespace dlflow {

/// From a job's own record: what its supervisor saw of the latest attempt, over all its passes.
/// Nothing if none has ended.
std::optional<JobUsage> recorded_usage(std::span<const JobEvent> events);

/// Processor time over elapsed time times processors. 0..1, or a little more.
std::optional<double> cpu_efficiency(const JobRow& job);

/// Memory at its largest over what the job asked for.
std::optional<double> memory_efficiency(const JobRow& job);

/// Sentences that say what a job could ask for instead, judged by what it used. Empty if its
/// request fits, or nothing is known. A shorter walltime is advised only `in_queue`, where it lets
/// jobs start sooner; and to long jobs alone.
std::vector<std::string> advice_for(const JobRow& job, std::span<const JobSpan> spans,
                                    bool in_queue = true);

}  // namespace dlflow
