#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace dlflow {

/// How many processes of the SLURM job that a process is in the kernel has killed for want of
/// memory, as the job's cgroup counts them, in all steps: SLURM ends a job with any as
/// OUT_OF_MEMORY, whatever its script says. Nothing if it has no such cgroup, or none that can be
/// read.
/// \param root    where cgroups are mounted: /sys/fs/cgroup.
/// \param own     what /proc/PID/cgroup says of the process.
std::optional<uint64_t> job_memory_kills(const std::filesystem::path& root, std::string_view own);

}  // namespace dlflow
