#pragma once

#include <set>
#include <string>

#include "engine/model/workflow.h"

namespace dlflow {

/// Describes training steps with more ranks than leaves: how many ranks are idle, and how to give
/// them work (base/leaves.h). Elements with the same problem share one text. Ignores settings that
/// depend on other steps.
std::set<std::string> wasted_ranks(const Step& step, const Json& params);

}  // namespace dlflow
