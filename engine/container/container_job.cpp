#include "engine/container/container_job.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"

namespace dlflow {
namespace {

template <typename Read>
auto reading_job_file(const char* what, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not a ") + what + ": " + reason_of(error));
  }
}

}  // namespace

template <class Archive>
void list_fields(Archive& archive, Bind& bind) {
  archive("source", bind.source);
  archive("target", bind.target);
  archive("read_only", bind.read_only);
}

template <class Archive>
void list_fields(Archive& archive, ContainerJob& job) {
  archive("image", job.image);
  archive("from", job.from);
  archive("digest", job.digest);
  archive("build", job.build);
  archive("cache", job.cache);
  archive("cache_budget_bytes", job.cache_budget_bytes);
  archive("runtime", job.runtime);
  archive("command", job.command);
  archive("mode", job.mode);
  archive("arguments", job.arguments);
  archive("launcher", job.launcher);
  archive("mpirun", job.mpirun);
  archive("ranks", job.ranks);
  archive("binds", job.binds);
  archive("directory", job.directory);
  archive("gpus", job.gpus);
  archive("commands", job.commands);
  archive("environment", job.environment);
  archive("rank_plan", job.rank_plan);
  archive("secrets", job.secrets);
  archive("secrets_file", job.secrets_file);
}

template <class Archive>
void list_fields(Archive& archive, ContainerRequest& request) {
  archive("image", request.image);
  archive("commands", request.commands);
  archive("directory", request.directory);
  archive("environment", request.environment);
  archive("adds_ranks", request.adds_ranks);
  archive("rank_plan", request.rank_plan);
  archive("asks_by", request.asks_by);
  archive("asked_by", request.asked_by);
  archive("secrets", request.secrets);
  archive("secrets_file", request.secrets_file);
}

Json to_json(const ContainerJob& job) { return json_of(job); }

ContainerJob container_job_from_json(const Json& json) {
  return reading_job_file("container.json", [&] { return from_fields<ContainerJob>(json); });
}

Json to_json(const ContainerRequest& request) { return json_of(request); }

ContainerRequest container_request_from_json(const Json& json) {
  return reading_job_file("request.json", [&] { return from_fields<ContainerRequest>(json); });
}

bool is_passed_on(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"SLURM_", "PMIX_", "PMI_", "OMPI_"};
  static constexpr std::string_view kNames[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                                "ZE_AFFINITY_MASK"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace dlflow
