#pragma once

#include <string_view>

namespace dlflow {

/// For tests of what a crash leaves: kills this process with -9 if the environment says
/// DLFLOW_CRASH_AT=point:n and this is the n-th call with that point. The file that
/// DLFLOW_CRASH_MARK names, if any, says afterwards that it was. Costs one look at a flag.
void crash_point(std::string_view point);

}  // namespace dlflow
