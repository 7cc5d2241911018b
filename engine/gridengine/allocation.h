#pragma once

#include <optional>

#include "engine/batch/job_exec.h"

namespace dlflow {

/// The job of Grid Engine that this process runs in; nothing outside of one.
std::optional<Allocation> gridengine_allocation();

}  // namespace dlflow
