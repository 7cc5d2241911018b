#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/report/spans.h"
#include "engine/store/run_status.h"

namespace dlflow {

/// What a job could ask for instead, from what it used: sentences with what to write. Empty where
/// it fits, or nothing is known. A shorter walltime is advised only `in_queue`, where it lets jobs
/// start sooner; and to long jobs alone.
std::vector<std::string> advice_for(const JobRow& job, std::span<const JobSpan> spans,
                                    bool in_queue = true);

}  // namespace dlflow
