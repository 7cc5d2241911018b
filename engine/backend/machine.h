#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/plan/plan.h"

namespace dlflow {

/// The resources of this machine that jobs may use.
struct Machine {
  int cores = 1;
  uint64_t memory_bytes = 0;
  std::vector<std::string> gpus = {};  ///< their names in CUDA_VISIBLE_DEVICES
  bool operator==(const Machine&) const = default;
};

/// The values in `profile`; instead of 0, what this process may use: its CPU affinity, the limits
/// of its cgroup (version 2), the machine's memory, CUDA_VISIBLE_DEVICES or all GPUs in /dev.
Machine local_machine(const Profile& profile);

/// The number of GPUs with a device in this folder: nvidia0, nvidia4. CUDA numbers them from 0.
int gpus_in(const std::filesystem::path& devices);

/// The number of the machine's cores that a job takes. A job with several ranks that asks for more
/// takes all of them, and its ranks share them. An exclusive job runs alone.
int cores_taken(const Resources& resources, const Machine& machine);
/// The number of GPUs that a job takes.
size_t gpus_taken(const Resources& resources);

/// Throws Error{InvalidInput} with the place in the workflow, the step's request and the resources
/// of `machine`, if a job of `plan` could never run there.
void check_fits(const Plan& plan, const Machine& machine);

}  // namespace dlflow
