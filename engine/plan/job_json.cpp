#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "engine/plan/job.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, 3> kUnits = {"epochs", "steps", "seconds"};

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

void to_json(Json& json, RetryCause cause) { json = kRetryCauses[size_t(cause)]; }
void from_json(const Json& json, RetryCause& cause) {
  cause = RetryCause(place_of_word(kRetryCauses, json.get<std::string>(),
                                   json.dump() + " is no cause of a retry"));
}

NLOHMANN_JSON_SERIALIZE_ENUM(CheckpointPolicy::Signal,
                             {{CheckpointPolicy::Signal::Usr1, "SIGUSR1"},
                              {CheckpointPolicy::Signal::Term, "SIGTERM"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Launch, {{Launch::Ranks, "ranks"}, {Launch::Node, "node"}})

// Fields read with if_there are missing in runs of earlier versions.

template <class Archive>
void list_fields(Archive& archive, CheckpointPolicy& value) {
  DLFLOW_FIELDS(every, unit, keep);
  DLFLOW_FIELDS_IF_THERE(signal, newer);
  archive.if_there("lead_s", value.lead);
}

template <class Archive>
void list_fields(Archive& archive, Retry& value) {
  DLFLOW_FIELDS(attempts, on);
  DLFLOW_FIELDS_IF_THERE(exit_codes, memory_factor, walltime_factor);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Requirement, metric, comparison, bound)

template <class Archive>
void list_fields(Archive& archive, ParentRef& value) {
  DLFLOW_FIELDS(step, element, directory);
  DLFLOW_FIELDS_UNLESS_DEFAULT(skipped, may_fail, failed);
  archive.unless_default("is_command", value.is_command, true);
}

/// Not the user's spelling, which resources_from_json() reads.
template <class Archive>
void list_fields(Archive& archive, Resources& value) {
  DLFLOW_FIELDS(ranks, cpus_per_rank, gpus_per_rank, memory_bytes);
  archive("walltime_s", value.walltime);
  DLFLOW_FIELDS_IF_THERE(ranks_per_node, exclusive, licences, alone);
}

template <class Archive>
void list_fields(Archive& archive, ContainerSpec& value) {
  DLFLOW_FIELDS(image, from, digest);
  archive.if_there("build", value.build);
  list_fields(archive, value.settings);
}

template <class Archive>
void list_fields(Archive& archive, SourceProofs& value) {
  DLFLOW_FIELDS(frozen, outside);
  DLFLOW_FIELDS_IF_THERE(packages, variables, programs, inherited);
}

template <class Archive>
void list_fields(Archive& archive, JobSpec& value) {
  DLFLOW_FIELDS(run, job, step, element, uses, run_command, with, environment, inherit, secrets,
                condition, params, late_params, sees_run, resources, launch, checkpoint, retry,
                allow_failure, always, require, outputs, parents, inputs, data, sources,
                run_directory, job_directory, cache, cache_budget_bytes, scratch,
                scratch_budget_bytes, node_memory_bytes, launcher, setup, fingerprint_base, reuse);
  archive.unless_default("container", value.container);
  DLFLOW_FIELDS_IF_THERE(lists, base);
  archive.unless_default("needed_metrics", value.needed_metrics);
  archive("walltime_limit_s", value.walltime_limit);
}

void to_json(Json& json, JobState state) { json = name(state); }
void from_json(const Json& json, JobState& state) { state = job_state(json.get<std::string>()); }

template <class Archive>
void list_fields(Archive& archive, PassUsage& value) {
  archive("cpu_ms", value.cpu_time);
  archive("memory_bytes", value.memory_bytes);
}

template <class Archive>
void list_fields(Archive& archive, JobEvent& value) {
  archive("at", value.at);
  DLFLOW_FIELDS_UNLESS_DEFAULT(job, attempt, state, backend_id, node, exit, reason, fingerprint,
                               outputs, metrics, published_nothing, reused_from, failed_tries,
                               idle_passes, preempted, failed_node, earlier_error_bytes, used);
  archive.unless_default("walltime_s", value.walltime);
}

namespace {

/// Throws unless each output has a value and a hash, so that later readers can rely on it.
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
  // These texts came from programs, perhaps another user's, and will be shown to people.
  for (std::string* text : {&event.node, &event.reason, &event.reused_from, &event.failed_node}) {
    *text = escaped_lines(*text);
  }
  return event;
}

}  // namespace

Json to_json(const JobSpec& spec) { return json_of(spec); }

JobSpec job_spec_from_json(const Json& json) { return from_fields<JobSpec>(json, "job.json"); }

Json to_json(const JobEvent& event) { return json_of(event); }

JobEvent job_event_from_json(const Json& json) {
  try {
    return read_job_event(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not an event: ") + reason_of(error));
  }
}

std::string to_line(const JobEvent& event) {
  const Json json = to_json(event);
  try {
    std::string line;
    append_dump(line, json);
    return line;
  } catch (const Json::exception&) {
    // Text that came from programs may hold any bytes; JSON holds Unicode.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

JobEvent job_event_from_line(std::string_view line) {
  const Json json = parse_json(line);
  if (json.is_discarded())
    throw Error(Errc::Corrupt, "not a line of JSON: " + escaped(line.substr(0, 80)));
  return job_event_from_json(json);
}

}  // namespace dlflow
