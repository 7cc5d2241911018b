#include "engine/plan/plan_json.h"

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"

namespace dlflow {
namespace {

/// Raised when plan.json changes in a way that an older dlflow cannot read.
constexpr int kVersion = 1;

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeShape, cores, memory_bytes, gpus)

template <class Archive>
void list_fields(Archive& archive, Limits& limits) {
  archive("walltime_s", limits.walltime);
  archive("nodes", limits.nodes);
  archive("array_size", limits.array_size);
  archive("array_throttle", limits.array_throttle);
  archive("jobs", limits.jobs);
  archive("dependencies", limits.dependencies);
  archive.if_there("submit_interval_s", limits.submit_interval);
}

/// Lists the fields that Profile and NodeClass share.
template <class Archive, class Where>
void list_nodes(Archive& archive, Where& where) {
  archive("slurm", where.slurm);
  archive.if_there("gridengine", where.gridengine);
  archive("ranks_per_node", where.ranks_per_node);
  archive("node", where.node);
  archive("limits", where.limits);
}

template <class Archive>
void list_fields(Archive& archive, NodeClass& node_class) {
  archive("name", node_class.name);
  archive("local", node_class.local);
  list_nodes(archive, node_class);
  archive("launcher", node_class.launcher);
  archive("setup", node_class.setup);
}

template <class Archive>
void list_fields(Archive& archive, Profile& profile) {
  archive("name", profile.name);
  archive("file", profile.file);
  archive("scheduler", profile.scheduler);
  archive("cores", profile.cores);
  archive("memory_bytes", profile.memory_bytes);
  archive("gpus", profile.gpus);
  archive("launcher", profile.launcher);
  archive("setup", profile.setup);
  archive("environment", profile.environment);
  archive.if_there("inherit", profile.inherit);
  archive("runs", profile.runs);
  archive("cache", profile.cache);
  archive("cache_budget_bytes", profile.cache_budget_bytes);
  archive.if_there("container", profile.container);  // an older dlflow knew no containers
  if (!archive.has("slurm")) return;  // a dlflow that knew no SLURM wrote nothing of a cluster
  list_nodes(archive, profile);
  archive("scratch", profile.scratch);
  archive.if_there("scratch_budget_bytes", profile.scratch_budget_bytes);
  archive.if_there("exclude_nodes", profile.exclude_nodes, 0);  // an older dlflow left out none
  archive.if_there("submit_from_jobs", profile.submit_from_jobs);
  archive.if_there("classes", profile.classes);
}

template <class Archive>
void list_fields(Archive& archive, KnownResult& result) {
  archive("run", result.run);
  archive("job", result.job);
  archive("directory", result.directory);
  archive.if_there("fingerprint", result.fingerprint);
  archive("outputs", result.outputs);
  archive("metrics", result.metrics);
}

Json to_json(const Profile& profile) { return json_of(profile); }

namespace {

FrozenSettings read(const Json& json) {
  FrozenSettings settings;
  json.at("run").get_to(settings.run);
  settings.created = from_rfc3339(json.at("created").get<std::string>());
  json.at("workflow_file").get_to(settings.workflow_file);
  settings.folder = json.at("folder").get<std::string>();
  settings.params = json.at("params");
  settings.written = json.value("written", settings.written);
  json.at("until").get_to(settings.options.until);
  json.at("force").get_to(settings.options.force);
  settings.options.set = json.value("set", std::vector<std::string>());
  settings.options.common_axes = json.value("common_axes", false);  // an older dlflow: absent
  if (json.contains("images")) json.at("images").get_to(settings.images);
  read_from(json.at("profile"), settings.profile);
  settings.sources = json.value("sources", settings.sources);
  json.at("files").get_to(settings.files);
  json.at("outside").get_to(settings.outside);
  if (json.contains("data")) json.at("data").get_to(settings.data);
  settings.secret_variables = json.value("secret_variables", settings.secret_variables);
  for (const auto& [step, frozen] : json.at("steps").items()) {
    settings.inputs[step] = frozen.at("inputs").get<std::vector<std::string>>();
    settings.visible_params[step] = frozen.at("visible_params");
    settings.conditions[step] = frozen.value("conditions", Json::object());
    settings.versions[step] = frozen.value("version", 0);  // of an older dlflow: nobody knows
    if (frozen.value("sees_run", true)) settings.sees_run.insert(step);  // of an older dlflow: all
  }
  for (const auto& [job, result] : json.at("reused").items()) {
    settings.reused.emplace(job, from_fields<KnownResult>(result));
  }
  return settings;
}

}  // namespace

Json frozen_settings(const Plan& plan) {
  Json steps = Json::object();
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    const PlannedStep& planned = plan.steps[step];
    if (!planned.planned) continue;
    steps[plan.workflow.steps[step].name] = {{"inputs", planned.inputs},
                                             {"visible_params", planned.visible_params},
                                             {"conditions", planned.conditions},
                                             {"sees_run", planned.sees_run},
                                             {"version", planned.version}};
  }
  Json reused = Json::object();
  for (const auto& [job, result] : plan.reused) reused[plan.jobs[job].name] = json_of(result);
  std::map<std::string, std::string> images;
  for (const Image& image : plan.workflow.images) {
    if (!image.digest.empty()) images[image.name] = image.digest;
  }
  return {{"version", kVersion},
          {"dlflow", DLFLOW_VERSION},
          {"run", plan.run},
          {"created", to_rfc3339(plan.created)},
          {"workflow_file", plan.workflow.file},
          {"folder", plan.base.string()},
          {"params", plan.workflow.params},
          {"written", plan.workflow.written},
          {"images", images},
          {"until", plan.options.until},
          {"force", plan.options.force},
          {"set", plan.options.set},
          {"common_axes", plan.options.common_axes},
          {"profile", to_json(plan.profile)},
          {"sources", plan.sources},
          {"files", plan.files},
          {"outside", plan.outside},
          {"data", plan.data},
          {"secret_variables", plan.secret_variables},
          {"steps", std::move(steps)},
          {"reused", std::move(reused)}};
}

FrozenSettings frozen_settings_from_json(const Json& json) {
  try {
    const int version = json.at("version").get<int>();
    if (version > kVersion) {
      throw Error(Errc::Corrupt, "a newer dlflow (" + json.value("dlflow", "unknown") +
                                     ") made this run; use the one in its bin folder");
    }
    return read(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not a plan.json: ") + reason_of(error));
  }
}

}  // namespace dlflow
