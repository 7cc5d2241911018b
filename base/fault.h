#pragma once

#include <functional>
#include <string_view>

namespace dlflow {

/// For tests of what a crash leaves: kills this process with -9 if the environment says
/// DLFLOW_CRASH_AT=point:n and this is the n-th call with that point. The file that
/// DLFLOW_CRASH_MARK names, if any, says afterwards that it was. Costs one look at a flag.
void crash_point(std::string_view point);

/// For tests within one process: `act` is called at each point from now on, and may throw what
/// nothing but the test catches, as if this process ended there. Empty: no more.
void on_crash_point(std::function<void(std::string_view point)> act);

}  // namespace dlflow
