#pragma once

#include <string>

#include "base/json.h"

namespace dlflow {

/// Describes two keys of `resources:` that contradict each other; empty if none do. Values that are
/// not known yet (expressions) contradict nothing.
/// \param resources  must have its shape
std::string contradiction_in(const Json& resources);

}  // namespace dlflow
