#pragma once

#include <string>

#include "base/json.h"

namespace dlflow {

/// What two keys of `resources:` contradict each other, for people; empty if none do. Values that
/// are not known yet (expressions) contradict nothing.
/// \param resources  as their shape says
std::string contradiction_in(const Json& resources);

}  // namespace dlflow
