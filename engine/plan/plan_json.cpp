#include "engine/plan/plan_json.h"

#include "base/error.h"
#include "base/parse_json.h"

namespace dlflow {
namespace {

/// Raised when plan.json changes in a way that an older dlflow cannot read.
constexpr int kVersion = 1;

Json to_json(const SlurmOptions& slurm) {
  return {{"partition", slurm.partition},
          {"account", slurm.account},
          {"qos", slurm.qos},
          {"constraint", slurm.constraint},
          {"reservation", slurm.reservation},
          {"exclusive", slurm.exclusive},
          {"gres", slurm.gres},
          {"options", slurm.options}};
}

Json to_json(const GridEngineOptions& gridengine) {
  return {{"queue", gridengine.queue},
          {"project", gridengine.project},
          {"parallel_environment", gridengine.parallel_environment},
          {"memory", gridengine.memory},
          {"gpus", gridengine.gpus},
          {"options", gridengine.options}};
}

Json to_json(const Limits& limits) {
  return {{"walltime_s", limits.walltime.count()},
          {"nodes", limits.nodes},
          {"array_size", limits.array_size},
          {"array_throttle", limits.array_throttle},
          {"jobs", limits.jobs},
          {"dependencies", limits.dependencies},
          {"submit_interval_s", limits.submit_interval.count()}};
}

Limits limits_from_json(const Json& json) {
  return {.walltime = std::chrono::seconds(json.at("walltime_s").get<int64_t>()),
          .nodes = json.at("nodes"),
          .array_size = json.at("array_size"),
          .array_throttle = json.at("array_throttle"),
          .jobs = json.at("jobs"),
          .dependencies = json.at("dependencies"),
          .submit_interval = std::chrono::seconds(json.value("submit_interval_s", int64_t{0}))};
}

Json to_json(const ContainerSettings& container) {
  return {{"runtime", container.runtime},
          {"command", container.command},
          {"mode", container.mode},
          {"arguments", container.arguments},
          {"binds", container.binds}};
}

Json to_json(const NodeShape& node) {
  return {{"cores", node.cores}, {"memory_bytes", node.memory_bytes}, {"gpus", node.gpus}};
}

NodeShape node_from_json(const Json& json) {
  return {json.at("cores"), json.at("memory_bytes"), json.at("gpus")};
}

Json to_json(const Launcher& launcher) {
  return {{"program", launcher.program}, {"arguments", launcher.arguments}};
}

Launcher launcher_from_json(const Json& json) { return {json.at("program"), json.at("arguments")}; }

Json to_json(const NodeClass& node_class) {
  return {{"name", node_class.name},
          {"local", node_class.local},
          {"slurm", to_json(node_class.slurm)},
          {"gridengine", to_json(node_class.gridengine)},
          {"ranks_per_node", node_class.ranks_per_node},
          {"node", to_json(node_class.node)},
          {"limits", to_json(node_class.limits)},
          {"launcher", to_json(node_class.launcher)},
          {"setup", node_class.setup}};
}

NodeClass node_class_from_json(const Json& json) {
  return {.name = json.at("name"),
          .local = json.at("local"),
          .slurm = slurm_options_from_json(json.at("slurm")),
          .gridengine = gridengine_options_from_json(json.at("gridengine")),
          .ranks_per_node = json.at("ranks_per_node"),
          .node = node_from_json(json.at("node")),
          .limits = limits_from_json(json.at("limits")),
          .launcher = launcher_from_json(json.at("launcher")),
          .setup = json.at("setup").get<std::vector<std::string>>()};
}

Json to_json(const std::vector<NodeClass>& classes) {
  Json list = Json::array();
  for (const NodeClass& node_class : classes) list.push_back(to_json(node_class));
  return list;
}

/// What a profile says of a cluster, as far as `json` has it: a dlflow that knew no SLURM wrote
/// none of it.
void read_cluster(const Json& json, Profile& profile) {
  if (!json.contains("slurm")) return;
  profile.slurm = slurm_options_from_json(json.at("slurm"));
  if (json.contains("gridengine")) {
    profile.gridengine = gridengine_options_from_json(json.at("gridengine"));
  }
  json.at("ranks_per_node").get_to(profile.ranks_per_node);
  profile.node = node_from_json(json.at("node"));
  profile.limits = limits_from_json(json.at("limits"));
  profile.scratch = json.at("scratch").get<std::string>();
  profile.scratch_budget_bytes = json.value("scratch_budget_bytes", uint64_t{0});
  profile.exclude_nodes = json.value("exclude_nodes", 0);
  profile.submit_from_jobs = json.value("submit_from_jobs", true);
  for (const Json& node_class : json.value("classes", Json::array())) {
    profile.classes.push_back(node_class_from_json(node_class));
  }
}

}  // namespace

Json to_json(const Profile& profile) {
  return {{"name", profile.name},
          {"file", profile.file},
          {"scheduler", profile.scheduler},
          {"cores", profile.cores},
          {"memory_bytes", profile.memory_bytes},
          {"gpus", profile.gpus},
          {"launcher", to_json(profile.launcher)},
          {"container", to_json(profile.container)},
          {"setup", profile.setup},
          {"environment", profile.environment},
          {"inherit", profile.inherit},
          {"runs", profile.runs.string()},
          {"cache", profile.cache.string()},
          {"cache_budget_bytes", profile.cache_budget_bytes},
          {"slurm", to_json(profile.slurm)},
          {"gridengine", to_json(profile.gridengine)},
          {"ranks_per_node", profile.ranks_per_node},
          {"node", to_json(profile.node)},
          {"limits", to_json(profile.limits)},
          {"scratch", profile.scratch.string()},
          {"scratch_budget_bytes", profile.scratch_budget_bytes},
          {"exclude_nodes", profile.exclude_nodes},
          {"submit_from_jobs", profile.submit_from_jobs},
          {"classes", to_json(profile.classes)}};
}

namespace {

Profile profile_from_json(const Json& json) {
  Profile profile;
  json.at("name").get_to(profile.name);
  json.at("file").get_to(profile.file);
  json.at("scheduler").get_to(profile.scheduler);
  json.at("cores").get_to(profile.cores);
  json.at("memory_bytes").get_to(profile.memory_bytes);
  json.at("gpus").get_to(profile.gpus);
  profile.launcher = launcher_from_json(json.at("launcher"));
  json.at("setup").get_to(profile.setup);
  json.at("environment").get_to(profile.environment);
  if (json.contains("inherit")) json.at("inherit").get_to(profile.inherit);
  profile.runs = json.at("runs").get<std::string>();
  profile.cache = json.at("cache").get<std::string>();
  json.at("cache_budget_bytes").get_to(profile.cache_budget_bytes);
  read_cluster(json, profile);
  if (json.contains("container")) {  // an older dlflow knew no containers
    profile.container = container_settings_from_json(json.at("container"));
  }
  return profile;
}

Json to_json(const KnownResult& result) {
  return {{"run", result.run},
          {"job", result.job},
          {"directory", result.directory.string()},
          {"fingerprint", result.fingerprint},
          {"outputs", result.outputs},
          {"metrics", result.metrics}};
}

KnownResult known_result_from_json(const Json& json) {
  return {.run = json.at("run").get<std::string>(),
          .job = json.at("job").get<std::string>(),
          .directory = json.at("directory").get<std::string>(),
          .fingerprint = json.value("fingerprint", ""),
          .outputs = json.at("outputs"),
          .metrics = json.at("metrics")};
}

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
  settings.profile = profile_from_json(json.at("profile"));
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
    settings.reused.emplace(job, known_result_from_json(result));
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
  for (const auto& [job, result] : plan.reused) reused[plan.jobs[job].name] = to_json(result);
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
