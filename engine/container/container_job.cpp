#include "engine/container/container_job.h"

#include <algorithm>

#include "base/error.h"
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

Json to_json(const std::vector<Bind>& binds) {
  Json list = Json::array();
  for (const Bind& bind : binds) {
    list.push_back({{"source", bind.source.string()},
                    {"target", bind.target.string()},
                    {"read_only", bind.read_only}});
  }
  return list;
}

std::vector<Bind> binds_from_json(const Json& list) {
  std::vector<Bind> binds;
  for (const Json& bind : list) {
    binds.push_back({bind.at("source").get<std::string>(), bind.at("target").get<std::string>(),
                     bind.at("read_only").get<bool>()});
  }
  return binds;
}

Json to_json(const std::optional<RankPlan>& plan) { return plan ? dlflow::to_json(*plan) : Json(); }

std::optional<RankPlan> optional_plan(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return rank_plan_from_json(json);
}

}  // namespace

Json to_json(const ContainerJob& job) {
  return {{"image", job.image},
          {"from", job.from},
          {"digest", job.digest},
          {"build", job.build},
          {"cache", job.cache.string()},
          {"cache_budget_bytes", job.cache_budget_bytes},
          {"runtime", job.runtime},
          {"command", job.command},
          {"mode", job.mode},
          {"arguments", job.arguments},
          {"launcher", job.launcher},
          {"mpirun", job.mpirun},
          {"ranks", job.ranks},
          {"binds", to_json(job.binds)},
          {"directory", job.directory.string()},
          {"gpus", job.gpus},
          {"commands", job.commands},
          {"environment", job.environment},
          {"rank_plan", to_json(job.rank_plan)},
          {"secrets", job.secrets},
          {"secrets_file", job.secrets_file.string()}};
}

ContainerJob container_job_from_json(const Json& json) {
  return reading_job_file("container.json", [&] {
    ContainerJob job;
    json.at("image").get_to(job.image);
    json.at("from").get_to(job.from);
    json.at("digest").get_to(job.digest);
    job.build = json.at("build");
    job.cache = json.at("cache").get<std::string>();
    json.at("cache_budget_bytes").get_to(job.cache_budget_bytes);
    json.at("runtime").get_to(job.runtime);
    json.at("command").get_to(job.command);
    json.at("mode").get_to(job.mode);
    json.at("arguments").get_to(job.arguments);
    json.at("launcher").get_to(job.launcher);
    json.at("mpirun").get_to(job.mpirun);
    json.at("ranks").get_to(job.ranks);
    job.binds = binds_from_json(json.at("binds"));
    job.directory = json.at("directory").get<std::string>();
    json.at("gpus").get_to(job.gpus);
    json.at("commands").get_to(job.commands);
    json.at("environment").get_to(job.environment);
    job.rank_plan = optional_plan(json.at("rank_plan"));
    json.at("secrets").get_to(job.secrets);
    job.secrets_file = json.at("secrets_file").get<std::string>();
    return job;
  });
}

Json to_json(const ContainerRequest& request) {
  return {{"image", request.image},
          {"commands", request.commands},
          {"directory", request.directory.string()},
          {"environment", request.environment},
          {"adds_ranks", request.adds_ranks},
          {"rank_plan", to_json(request.rank_plan)},
          {"asks_by", request.asks_by},
          {"asked_by", request.asked_by},
          {"secrets", request.secrets},
          {"secrets_file", request.secrets_file.string()}};
}

ContainerRequest container_request_from_json(const Json& json) {
  return reading_job_file("request.json", [&] {
    ContainerRequest request;
    json.at("image").get_to(request.image);
    json.at("commands").get_to(request.commands);
    request.directory = json.at("directory").get<std::string>();
    json.at("environment").get_to(request.environment);
    json.at("adds_ranks").get_to(request.adds_ranks);
    request.rank_plan = optional_plan(json.at("rank_plan"));
    json.at("asks_by").get_to(request.asks_by);
    json.at("asked_by").get_to(request.asked_by);
    json.at("secrets").get_to(request.secrets);
    request.secrets_file = json.at("secrets_file").get<std::string>();
    return request;
  });
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
