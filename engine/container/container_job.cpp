#include "engine/container/container_job.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/mpi.h"

namespace dlflow {

DLFLOW_DEFINE_FIELDS(Bind, source, target, read_only)

DLFLOW_DEFINE_FIELDS(ContainerJob, image, from, digest, build, cache, cache_budget_bytes, runtime,
                     command, mode, arguments, launcher, mpirun, ranks, binds, directory, gpus,
                     commands, environment, rank_plan, secrets, secrets_file, log)

DLFLOW_DEFINE_FIELDS(ContainerRequest, image, commands, directory, environment, adds_ranks,
                     rank_plan, asks_by, asked_by, secrets, secrets_file)

Json to_json(const ContainerJob& job) { return json_of(job); }

ContainerJob container_job_from_json(const Json& json) {
  return from_fields<ContainerJob>(json, "container.json");
}

Json to_json(const ContainerRequest& request) { return json_of(request); }

ContainerRequest container_request_from_json(const Json& json) {
  return from_fields<ContainerRequest>(json, "request.json");
}

bool is_passed_on(std::string_view name) {
  static constexpr std::string_view kNames[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                                "ZE_AFFINITY_MASK"};
  return std::any_of(std::begin(kPlaceVariables), std::end(kPlaceVariables),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace dlflow
