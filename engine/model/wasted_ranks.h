#pragma once

#include <set>
#include <string>

#include "engine/model/workflow.h"

namespace dlflow {

/// Of a training step with more ranks than a step of it has leaves: how many have nothing to do,
/// and what would give them work (base/leaves.h). One text for all elements that are alike; what
/// depends on other steps is not looked at.
std::set<std::string> wasted_ranks(const Step& step, const Json& params);

}  // namespace dlflow
