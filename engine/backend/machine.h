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
  std::vector<std::string> gpus = {};  ///< as CUDA_VISIBLE_DEVICES names them
  bool operator==(const Machine&) const = default;
};

/// What `profile` says; where it says 0, what this process may use: its CPU affinity, the limits of
/// its cgroup (version 2), the machine's memory, CUDA_VISIBLE_DEVICES or all GPUs in /dev.
Machine local_machine(const Profile& profile);

/// How many GPUs have a device in this folder: nvidia0, nvidia4. CUDA numbers them from 0.
int gpus_in(const std::filesystem::path& devices);

/// How many of the machine's cores a job takes. One with several ranks may ask for more than there
/// are: it takes all of them, and its ranks share. One that is exclusive runs alone.
int cores_taken(const Resources& resources, const Machine& machine);
/// How many GPUs.
size_t gpus_taken(const Resources& resources);

/// Throws Error{InvalidInput} with the place in the workflow, what the step asks for and what there
/// is, if a job of `plan` could never run on `machine`.
void check_fits(const Plan& plan, const Machine& machine);

}  // namespace dlflow
