#pragma once

#include <optional>

#include "engine/batch/allocation.h"

namespace dlflow {

/// The job of Grid Engine that this process runs in; nothing outside of one.
std::optional<Allocation> gridengine_allocation();

}  // namespace dlflow
