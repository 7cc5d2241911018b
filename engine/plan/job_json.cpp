#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/plan/job.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, 3> kUnits = {"epochs", "steps", "seconds"};

Json to_json(const CheckpointPolicy& policy) {
  return {{"every", policy.every},
          {"unit", kUnits[size_t(policy.unit)]},
          {"keep", policy.keep},
          {"signal", policy.signal == CheckpointPolicy::Signal::Term ? "SIGTERM" : "SIGUSR1"},
          {"lead_s", policy.lead.count()},
          {"newer", policy.newer}};
}

CheckpointPolicy checkpoint_policy_from_json(const Json& json) {
  CheckpointPolicy policy;
  const auto unit = json.at("unit").get<std::string>();
  size_t index = 0;
  while (index < kUnits.size() && kUnits[index] != unit) ++index;
  if (index == kUnits.size()) throw Error(Errc::Corrupt, "'" + unit + "' is not a unit");
  policy.unit = CheckpointPolicy::Unit(index);
  policy.every = json.at("every").get<int64_t>();
  policy.keep = json.at("keep").get<int>();
  // Runs of earlier versions do not have the rest.
  if (json.value("signal", "") == "SIGTERM") policy.signal = CheckpointPolicy::Signal::Term;
  policy.lead = std::chrono::seconds(json.value("lead_s", int64_t{0}));
  policy.newer = json.value("newer", "");
  return policy;
}

constexpr std::array<std::string_view, 5> kCauses = {"failure", "node-failure", "preempted",
                                                     "timeout", "out-of-memory"};

Json to_json(const Retry& retry) {
  Json on = Json::array();
  for (const RetryCause cause : retry.on) on.push_back(kCauses[size_t(cause)]);
  return {{"attempts", retry.attempts},
          {"on", on},
          {"exit_codes", retry.exit_codes},
          {"memory_factor", retry.memory_factor},
          {"walltime_factor", retry.walltime_factor}};
}

Retry retry_from_json(const Json& json) {
  Retry retry{.attempts = json.at("attempts").get<int>(), .on = {}};
  for (const Json& word : json.at("on")) {
    const auto found = std::find(kCauses.begin(), kCauses.end(), word.get<std::string>());
    if (found == kCauses.end()) throw Error(Errc::Corrupt, word.dump() + " is no cause of a retry");
    retry.on.push_back(RetryCause(found - kCauses.begin()));
  }
  retry.exit_codes = json.value("exit_codes", std::set<int>());  // not of older versions
  retry.memory_factor = json.value("memory_factor", 2.0);
  retry.walltime_factor = json.value("walltime_factor", 1.0);
  return retry;
}

Json to_json(const std::vector<Requirement>& requirements) {
  Json list = Json::array();
  for (const Requirement& r : requirements) {
    list.push_back({{"metric", r.metric}, {"comparison", r.comparison}, {"bound", r.bound}});
  }
  return list;
}

std::vector<Requirement> requirements_from_json(const Json& list) {
  std::vector<Requirement> requirements;
  for (const Json& r : list) {
    requirements.push_back({r.at("metric").get<std::string>(),
                            r.at("comparison").get<std::string>(), r.at("bound").get<double>()});
  }
  return requirements;
}

Json to_json(const std::vector<ParentRef>& parents) {
  Json list = Json::array();
  for (const ParentRef& parent : parents) {
    list.push_back({{"step", parent.step},
                    {"element", parent.element},
                    {"directory", parent.directory.string()}});
    if (parent.skipped) list.back()["skipped"] = true;
    if (parent.may_fail) list.back()["may_fail"] = true;
    if (parent.failed) list.back()["failed"] = true;
    if (!parent.is_command) list.back()["is_command"] = false;
  }
  return list;
}

std::vector<ParentRef> parents_from_json(const Json& list) {
  std::vector<ParentRef> parents;
  for (const Json& parent : list) {
    parents.push_back({parent.at("step").get<std::string>(), parent.at("element"),
                       parent.at("directory").get<std::string>(), parent.value("skipped", false),
                       parent.value("may_fail", false), parent.value("failed", false),
                       parent.value("is_command", true)});
  }
  return parents;
}

/// Not resources_from_json(): that reads what a user wrote.
Resources job_resources_from_json(const Json& json) {
  Resources resources;
  resources.ranks = json.at("ranks").get<int>();
  resources.cpus_per_rank = json.at("cpus_per_rank").get<int>();
  resources.gpus_per_rank = json.at("gpus_per_rank").get<int>();
  resources.memory_bytes = json.at("memory_bytes").get<uint64_t>();
  resources.walltime = std::chrono::seconds(json.at("walltime_s").get<int64_t>());
  resources.ranks_per_node = json.value("ranks_per_node", 0);  // older versions do not have these
  resources.exclusive = json.value("exclusive", false);
  resources.licences = json.value("licences", std::map<std::string, int>());
  resources.alone = json.value("alone", false);
  return resources;
}

Json job_resources_to_json(const Resources& resources) {
  return {{"ranks", resources.ranks},
          {"cpus_per_rank", resources.cpus_per_rank},
          {"gpus_per_rank", resources.gpus_per_rank},
          {"memory_bytes", resources.memory_bytes},
          {"walltime_s", resources.walltime.count()},
          {"ranks_per_node", resources.ranks_per_node},
          {"exclusive", resources.exclusive},
          {"licences", resources.licences},
          {"alone", resources.alone}};
}

Json to_json(const ContainerSpec& container) {
  return {{"image", container.image},
          {"from", container.from},
          {"digest", container.digest},
          {"build", container.build},
          {"runtime", container.settings.runtime},
          {"command", container.settings.command},
          {"mode", container.settings.mode},
          {"arguments", container.settings.arguments},
          {"binds", container.settings.binds}};
}

ContainerSpec container_spec_from_json(const Json& json) {
  return {json.at("image").get<std::string>(), json.at("from").get<std::string>(),
          json.at("digest").get<std::string>(), json.value("build", Json()),
          container_settings_from_json(json)};
}

JobSpec read_job_spec(const Json& json) {
  JobSpec spec;
  spec.run = json.at("run").get<std::string>();
  spec.job = json.at("job").get<std::string>();
  spec.step = json.at("step").get<std::string>();
  spec.element = json.at("element");
  spec.uses = json.at("uses").get<std::string>();
  spec.run_command = json.at("run_command");
  spec.with = json.at("with");
  spec.environment = json.at("environment");
  spec.inherit = json.at("inherit").get<std::vector<std::string>>();
  spec.secrets = json.at("secrets").get<std::set<std::string>>();
  spec.condition = json.at("condition");
  spec.params = json.at("params");
  spec.late_params = json.at("late_params");
  spec.sees_run = json.at("sees_run").get<bool>();
  spec.resources = job_resources_from_json(json.at("resources"));
  spec.launch = json.at("launch") == "node" ? Launch::Node : Launch::Ranks;
  if (json.contains("container")) {
    spec.container = container_spec_from_json(json.at("container"));
  }
  if (const Json& policy = json.at("checkpoint"); !policy.is_null()) {
    spec.checkpoint = checkpoint_policy_from_json(policy);
  }
  spec.retry = retry_from_json(json.at("retry"));
  spec.allow_failure = json.at("allow_failure").get<bool>();
  spec.always = json.at("always").get<bool>();
  spec.require = requirements_from_json(json.at("require"));
  spec.outputs = json.at("outputs").get<std::map<std::string, std::string>>();
  spec.lists = json.value("lists", spec.lists);  // older: absent
  spec.parents = parents_from_json(json.at("parents"));
  spec.inputs = json.at("inputs").get<std::map<std::string, std::string>>();
  json.at("data").get_to(spec.data);
  const Json& sources = json.at("sources");
  sources.at("frozen").get_to(spec.sources.frozen);
  sources.at("outside").get_to(spec.sources.outside);
  spec.sources.packages = sources.value("packages", spec.sources.packages);  // older: absent
  spec.sources.variables = sources.value("variables", spec.sources.variables);
  spec.sources.programs = sources.value("programs", spec.sources.programs);
  spec.sources.inherited = sources.value("inherited", spec.sources.inherited);
  spec.base = json.value("base", "");  // older: absent
  spec.run_directory = json.at("run_directory").get<std::string>();
  spec.job_directory = json.at("job_directory").get<std::string>();
  spec.cache = json.at("cache").get<std::string>();
  spec.cache_budget_bytes = json.at("cache_budget_bytes").get<uint64_t>();
  spec.scratch = json.at("scratch").get<std::string>();
  spec.scratch_budget_bytes = json.at("scratch_budget_bytes").get<uint64_t>();
  spec.node_memory_bytes = json.at("node_memory_bytes").get<uint64_t>();
  spec.walltime_limit = std::chrono::seconds(json.at("walltime_limit_s").get<int64_t>());
  spec.launcher = json.at("launcher").get<std::vector<std::string>>();
  spec.setup = json.at("setup").get<std::vector<std::string>>();
  spec.fingerprint_base = json.at("fingerprint_base").get<std::string>();
  spec.reuse = json.at("reuse").get<bool>();
  return spec;
}

/// An object if it is there. Throws Json::exception.
Json object_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  return found->get_ref<const Json::object_t&>();
}

/// Names, each with a value and a hash, so that nobody who reads them is surprised.
Json outputs_at(const Json& json) {
  Json outputs = object_at(json, "outputs");
  for (const Json& output : outputs) {
    (void)output.value("sha256", std::string());
    (void)object_at(output, "matrix");
  }
  return outputs;
}

/// Text that came from programs, perhaps another user's, and that people will see.
std::string shown_text_at(const Json& json, const char* key) {
  return escaped_lines(json.value(key, ""));
}

JobEvent read_job_event(const Json& json) {
  JobEvent event;
  event.job = json.value("job", "");
  event.attempt = json.value("attempt", 0);
  if (json.contains("state")) event.state = job_state(json.at("state").get<std::string>());
  event.at = from_rfc3339(json.at("at").get<std::string>());
  event.backend_id = json.value("backend_id", "");
  event.node = shown_text_at(json, "node");
  if (json.contains("exit")) event.exit = json.at("exit").get<int>();
  event.reason = shown_text_at(json, "reason");
  event.fingerprint = json.value("fingerprint", "");
  event.outputs = outputs_at(json);
  event.metrics = object_at(json, "metrics");
  event.published_nothing = json.value("published_nothing", false);
  event.reused_from = shown_text_at(json, "reused_from");
  event.failed_tries = json.value("failed_tries", 0);
  event.idle_passes = json.value("idle_passes", 0);
  event.preempted = json.value("preempted", false);
  event.walltime = std::chrono::seconds(json.value("walltime_s", int64_t{0}));
  event.failed_node = shown_text_at(json, "failed_node");
  if (const auto used = json.find("used"); used != json.end()) {
    event.used = {.cpu_time = std::chrono::milliseconds(used->at("cpu_ms").get<int64_t>()),
                  .memory_bytes = used->at("memory_bytes").get<uint64_t>()};
  }
  return event;
}

}  // namespace

Json to_json(const JobSpec& spec) {
  Json json = {{"run", spec.run},
               {"job", spec.job},
               {"step", spec.step},
               {"element", spec.element},
               {"uses", spec.uses},
               {"run_command", spec.run_command},
               {"with", spec.with},
               {"environment", spec.environment},
               {"inherit", spec.inherit},
               {"secrets", spec.secrets},
               {"condition", spec.condition},
               {"params", spec.params},
               {"late_params", spec.late_params},
               {"sees_run", spec.sees_run},
               {"resources", job_resources_to_json(spec.resources)},
               {"launch", spec.launch == Launch::Node ? "node" : "ranks"},
               {"checkpoint", spec.checkpoint ? to_json(*spec.checkpoint) : Json()},
               {"retry", to_json(spec.retry)},
               {"allow_failure", spec.allow_failure},
               {"always", spec.always},
               {"require", to_json(spec.require)},
               {"outputs", spec.outputs},
               {"lists", spec.lists},
               {"parents", to_json(spec.parents)},
               {"inputs", spec.inputs},
               {"data", spec.data},
               {"sources",
                {{"frozen", spec.sources.frozen},
                 {"outside", spec.sources.outside},
                 {"packages", spec.sources.packages},
                 {"variables", spec.sources.variables},
                 {"programs", spec.sources.programs},
                 {"inherited", spec.sources.inherited}}},
               {"base", spec.base.string()},
               {"run_directory", spec.run_directory.string()},
               {"job_directory", spec.job_directory.string()},
               {"cache", spec.cache.string()},
               {"cache_budget_bytes", spec.cache_budget_bytes},
               {"scratch", spec.scratch.string()},
               {"scratch_budget_bytes", spec.scratch_budget_bytes},
               {"node_memory_bytes", spec.node_memory_bytes},
               {"walltime_limit_s", spec.walltime_limit.count()},
               {"launcher", spec.launcher},
               {"setup", spec.setup},
               {"fingerprint_base", spec.fingerprint_base},
               {"reuse", spec.reuse}};
  if (spec.container) json["container"] = to_json(*spec.container);
  return json;
}

JobSpec job_spec_from_json(const Json& json) {
  try {
    return read_job_spec(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not a job.json: ") + reason_of(error));
  }
}

Json to_json(const JobEvent& event) {
  Json json = {{"at", to_rfc3339(event.at)}};
  const auto add_text = [&json](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  add_text("job", event.job);
  if (event.attempt != 0) json["attempt"] = event.attempt;
  if (event.state) json["state"] = name(*event.state);
  add_text("backend_id", event.backend_id);
  add_text("node", event.node);
  if (event.exit) json["exit"] = *event.exit;
  add_text("reason", event.reason);
  add_text("fingerprint", event.fingerprint);
  if (!event.outputs.is_null()) json["outputs"] = event.outputs;
  if (!event.metrics.is_null()) json["metrics"] = event.metrics;
  if (event.published_nothing) json["published_nothing"] = true;
  add_text("reused_from", event.reused_from);
  if (event.failed_tries != 0) json["failed_tries"] = event.failed_tries;
  if (event.idle_passes != 0) json["idle_passes"] = event.idle_passes;
  if (event.preempted) json["preempted"] = true;
  if (event.walltime.count() > 0) json["walltime_s"] = event.walltime.count();
  add_text("failed_node", event.failed_node);
  if (event.used) {
    json["used"] = {{"cpu_ms", event.used->cpu_time.count()},
                    {"memory_bytes", event.used->memory_bytes}};
  }
  return json;
}

JobEvent job_event_from_json(const Json& json) {
  try {
    return read_job_event(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not an event: ") + reason_of(error));
  }
}

std::string to_line(const JobEvent& event) {
  // Text that came from programs may hold any bytes; JSON holds Unicode.
  return to_json(event).dump(-1, ' ', false, Json::error_handler_t::replace);
}

JobEvent job_event_from_line(std::string_view line) {
  const Json json = parse_json(line);
  if (json.is_discarded())
    throw Error(Errc::Corrupt, "not a line of JSON: " + escaped(line.substr(0, 80)));
  return job_event_from_json(json);
}

}  // namespace dlflow
