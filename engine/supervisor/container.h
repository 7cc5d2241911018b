#pragma once

#include <string>
#include <vector>

#include "engine/container/container_job.h"
#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

/// A job whose step has an image, in the terms of engine/container.
namespace dlflow {

/// The content of attempt-N/container.json. Its container sees, at the same paths as the host, the
/// folder of runs, results of parents elsewhere, the data that `with` names, the cache, and the
/// binds of the profile.
ContainerJob container_job(const JobSpec& spec, const ResolvedJob& job, const AttemptFiles& files);

/// The program that the launcher starts as a rank: `dlflow container-run`.
std::vector<std::string> container_program(const JobSpec& spec, const AttemptFiles& files);

/// Whether the runtime starts the ranks itself, instead of the launcher.
bool container_starts_ranks(const ContainerSpec& container);

}  // namespace dlflow
