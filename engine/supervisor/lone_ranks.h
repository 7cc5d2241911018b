#pragma once

#include <string>
#include <string_view>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

namespace dlflow {

/// A warning if each of the `ranks` of a step printed that it trains alone, as frameworks do that
/// did not find the other ranks; empty otherwise.
std::string warning_of_lone_ranks(std::string_view output, int ranks);

/// The same of what a pass has printed at its beginning, where frameworks tell that.
std::string warning_of_lone_ranks(const JobSpec& spec, const AttemptFiles& files);

}  // namespace dlflow
