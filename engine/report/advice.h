#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/report/spans.h"
#include "engine/store/run_status.h"

namespace dlflow {

/// What a job could ask for instead, from what it used: sentences with what to write. Empty where
/// it fits, or nothing is known. Short jobs get none about time: what they ask for matters little.
std::vector<std::string> advice_for(const JobRow& job, std::span<const JobSpan> spans);

}  // namespace dlflow
