#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/plan/job.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, 3> kUnits = {"epochs", "steps", "seconds"};
constexpr std::array<std::string_view, 5> kCauses = {"failure", "node-failure", "preempted",
                                                     "timeout", "out-of-memory"};

/// Throws Error{Corrupt} with `otherwise` if `word` is not among `words`.
size_t place_of_word(std::span<const std::string_view> words, const std::string& word,
                     const std::string& otherwise) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) throw Error(Errc::Corrupt, otherwise);
  return size_t(found - words.begin());
}

}  // namespace

void to_json(Json& json, CheckpointPolicy::Unit unit) { json = kUnits[size_t(unit)]; }
void from_json(const Json& json, CheckpointPolicy::Unit& unit) {
  const auto word = json.get<std::string>();
  unit = CheckpointPolicy::Unit(place_of_word(kUnits, word, "'" + word + "' is not a unit"));
}

void to_json(Json& json, RetryCause cause) { json = kCauses[size_t(cause)]; }
void from_json(const Json& json, RetryCause& cause) {
  cause = RetryCause(
      place_of_word(kCauses, json.get<std::string>(), json.dump() + " is no cause of a retry"));
}

NLOHMANN_JSON_SERIALIZE_ENUM(CheckpointPolicy::Signal,
                             {{CheckpointPolicy::Signal::Usr1, "SIGUSR1"},
                              {CheckpointPolicy::Signal::Term, "SIGTERM"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Launch, {{Launch::Ranks, "ranks"}, {Launch::Node, "node"}})

// What is read if_there is absent in runs of earlier versions.

template <class Archive>
void list_fields(Archive& archive, CheckpointPolicy& policy) {
  archive("every", policy.every);
  archive("unit", policy.unit);
  archive("keep", policy.keep);
  archive.if_there("signal", policy.signal);
  archive.if_there("lead_s", policy.lead);
  archive.if_there("newer", policy.newer);
}

template <class Archive>
void list_fields(Archive& archive, Retry& retry) {
  archive("attempts", retry.attempts);
  archive("on", retry.on);
  archive.if_there("exit_codes", retry.exit_codes);
  archive.if_there("memory_factor", retry.memory_factor);
  archive.if_there("walltime_factor", retry.walltime_factor);
}

template <class Archive>
void list_fields(Archive& archive, Requirement& requirement) {
  archive("metric", requirement.metric);
  archive("comparison", requirement.comparison);
  archive("bound", requirement.bound);
}

template <class Archive>
void list_fields(Archive& archive, ParentRef& parent) {
  archive("step", parent.step);
  archive("element", parent.element);
  archive("directory", parent.directory);
  archive.unless_default("skipped", parent.skipped);
  archive.unless_default("may_fail", parent.may_fail);
  archive.unless_default("failed", parent.failed);
  archive.unless_default("is_command", parent.is_command, true);
}

/// Not what resources_from_json() reads, which a user wrote.
template <class Archive>
void list_fields(Archive& archive, Resources& resources) {
  archive("ranks", resources.ranks);
  archive("cpus_per_rank", resources.cpus_per_rank);
  archive("gpus_per_rank", resources.gpus_per_rank);
  archive("memory_bytes", resources.memory_bytes);
  archive("walltime_s", resources.walltime);
  archive.if_there("ranks_per_node", resources.ranks_per_node);
  archive.if_there("exclusive", resources.exclusive);
  archive.if_there("licences", resources.licences);
  archive.if_there("alone", resources.alone);
}

template <class Archive>
void list_fields(Archive& archive, ContainerSpec& container) {
  archive("image", container.image);
  archive("from", container.from);
  archive("digest", container.digest);
  archive.if_there("build", container.build);
  list_fields(archive, container.settings);
}

template <class Archive>
void list_fields(Archive& archive, SourceProofs& sources) {
  archive("frozen", sources.frozen);
  archive("outside", sources.outside);
  archive.if_there("packages", sources.packages);
  archive.if_there("variables", sources.variables);
  archive.if_there("programs", sources.programs);
  archive.if_there("inherited", sources.inherited);
}

template <class Archive>
void list_fields(Archive& archive, JobSpec& spec) {
  archive("run", spec.run);
  archive("job", spec.job);
  archive("step", spec.step);
  archive("element", spec.element);
  archive("uses", spec.uses);
  archive("run_command", spec.run_command);
  archive("with", spec.with);
  archive("environment", spec.environment);
  archive("inherit", spec.inherit);
  archive("secrets", spec.secrets);
  archive("condition", spec.condition);
  archive("params", spec.params);
  archive("late_params", spec.late_params);
  archive("sees_run", spec.sees_run);
  archive("resources", spec.resources);
  archive("launch", spec.launch);
  archive.unless_default("container", spec.container);
  archive("checkpoint", spec.checkpoint);
  archive("retry", spec.retry);
  archive("allow_failure", spec.allow_failure);
  archive("always", spec.always);
  archive("require", spec.require);
  archive("outputs", spec.outputs);
  archive.if_there("lists", spec.lists);
  archive("parents", spec.parents);
  archive("inputs", spec.inputs);
  archive("data", spec.data);
  archive("sources", spec.sources);
  archive.if_there("base", spec.base);
  archive("run_directory", spec.run_directory);
  archive("job_directory", spec.job_directory);
  archive("cache", spec.cache);
  archive("cache_budget_bytes", spec.cache_budget_bytes);
  archive("scratch", spec.scratch);
  archive("scratch_budget_bytes", spec.scratch_budget_bytes);
  archive("node_memory_bytes", spec.node_memory_bytes);
  archive("walltime_limit_s", spec.walltime_limit);
  archive("launcher", spec.launcher);
  archive("setup", spec.setup);
  archive("fingerprint_base", spec.fingerprint_base);
  archive("reuse", spec.reuse);
}

namespace {

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

Json to_json(const JobSpec& spec) { return json_of(spec); }

JobSpec job_spec_from_json(const Json& json) {
  try {
    return from_fields<JobSpec>(json);
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
