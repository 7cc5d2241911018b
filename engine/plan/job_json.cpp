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

// Runs of earlier versions lack the fields that are read with if_there.

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

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Requirement, metric, comparison, bound)

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

void to_json(Json& json, JobState state) { json = name(state); }
void from_json(const Json& json, JobState& state) { state = job_state(json.get<std::string>()); }

template <class Archive>
void list_fields(Archive& archive, PassUsage& usage) {
  archive("cpu_ms", usage.cpu_time);
  archive("memory_bytes", usage.memory_bytes);
}

template <class Archive>
void list_fields(Archive& archive, JobEvent& event) {
  archive("at", event.at);
  archive.unless_default("job", event.job);
  archive.unless_default("attempt", event.attempt);
  archive.unless_default("state", event.state);
  archive.unless_default("backend_id", event.backend_id);
  archive.unless_default("node", event.node);
  archive.unless_default("exit", event.exit);
  archive.unless_default("reason", event.reason);
  archive.unless_default("fingerprint", event.fingerprint);
  archive.unless_default("outputs", event.outputs);
  archive.unless_default("metrics", event.metrics);
  archive.unless_default("published_nothing", event.published_nothing);
  archive.unless_default("reused_from", event.reused_from);
  archive.unless_default("failed_tries", event.failed_tries);
  archive.unless_default("idle_passes", event.idle_passes);
  archive.unless_default("preempted", event.preempted);
  archive.unless_default("walltime_s", event.walltime);
  archive.unless_default("failed_node", event.failed_node);
  archive.unless_default("used", event.used);
}

namespace {

/// Names, each with a value and a hash, so that nobody who reads them is surprised.
void check_outputs(const Json& outputs) {
  if (outputs.is_null()) return;
  for (const auto& [name, output] : outputs.get_ref<const Json::object_t&>()) {
    (void)output.value("sha256", std::string());
    if (const auto matrix = output.find("matrix"); matrix != output.end()) {
      (void)matrix->get_ref<const Json::object_t&>();
    }
  }
}

JobEvent read_job_event(const Json& json) {
  auto event = from_fields<JobEvent>(json);
  check_outputs(event.outputs);
  if (!event.metrics.is_null()) (void)event.metrics.get_ref<const Json::object_t&>();
  // Text that came from programs, perhaps another user's, and that people will see.
  for (std::string* text : {&event.node, &event.reason, &event.reused_from, &event.failed_node}) {
    *text = escaped_lines(*text);
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

Json to_json(const JobEvent& event) { return json_of(event); }

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
