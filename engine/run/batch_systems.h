#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/batch/allocation.h"
#include "engine/batch/batch_system.h"

/// All batch systems. No other place knows them by name.
namespace dlflow {

/// Their names as `scheduler:` uses them.
std::vector<std::string> batch_system_names();

/// Whether jobs of a profile with this `scheduler:` are submitted to a batch system.
bool is_batch_system(std::string_view scheduler);

/// The batch system of a profile's `scheduler:`. Throws Error{InvalidInput} if `scheduler` names
/// none.
std::unique_ptr<BatchSystem> make_batch_system(std::string_view scheduler);

/// The batch system whose tools are in $PATH here; if there are several, the first that answers.
/// Throws Error{NotFound} if there is none.
std::unique_ptr<BatchSystem> detect_batch_system();

/// The allocation that this process runs in. Throws Error{InvalidInput} outside of a job.
Allocation current_allocation();

}  // namespace dlflow
