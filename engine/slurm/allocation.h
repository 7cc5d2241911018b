#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "engine/batch/allocation.h"

namespace dlflow {

/// The allocation of this process by SLURM_JOB_ID, SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID and
/// SLURM_MEM_PER_NODE, the rest through SLURM's tools. Nothing outside of a SLURM job.
std::optional<Allocation> slurm_allocation();

/// How many processes of the SLURM job that a process is in the kernel has killed for want of
/// memory, as the job's cgroup counts them, in all steps: SLURM ends a job with any as
/// OUT_OF_MEMORY, whatever its script says. Nothing if it has no such cgroup, or none that can be
/// read.
/// \param root    where cgroups are mounted: /sys/fs/cgroup.
/// \param own     what /proc/PID/cgroup says of the process.
std::optional<uint64_t> job_memory_kills(const std::filesystem::path& root, std::string_view own);

}  // namespace dlflow
