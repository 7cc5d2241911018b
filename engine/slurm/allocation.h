#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "engine/batch/allocation.h"

namespace dlflow {

/// Reads this process's allocation from SLURM_JOB_ID, SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID and
/// SLURM_MEM_PER_NODE, and the rest with SLURM's tools. Returns nothing outside of a SLURM job.
std::optional<Allocation> slurm_allocation();

/// The number of processes in a process's SLURM job that the kernel killed for lack of memory, in
/// all steps, from the job's cgroup. If there are any, SLURM ends the job as OUT_OF_MEMORY,
/// regardless of its script. Nothing if there is no such cgroup, or it cannot be read.
/// \param root    where cgroups are mounted: /sys/fs/cgroup.
/// \param own     the content of the process's /proc/PID/cgroup.
std::optional<uint64_t> job_memory_kills(const std::filesystem::path& root, std::string_view own);

}  // namespace dlflow
