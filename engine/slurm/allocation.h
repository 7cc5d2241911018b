#pragma once

#include <optional>

#include "engine/batch/allocation.h"

namespace dlflow {

/// The allocation of this process by SLURM_JOB_ID, SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID and
/// SLURM_MEM_PER_NODE, the rest through SLURM's tools. Nothing outside of a SLURM job.
std::optional<Allocation> slurm_allocation();

}  // namespace dlflow
