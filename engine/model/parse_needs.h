#pragma once

#include <vector>

#include "engine/model/parse_step.h"

namespace dlflow {

/// Fills in Step::needs of all steps, from `needs:` and from references. Adds mistakes for steps
/// and outputs that do not exist, a step that needs itself, and cycles with their path.
void link_steps(std::vector<ParsedStep>& steps, Mistakes& mistakes);

}  // namespace dlflow
