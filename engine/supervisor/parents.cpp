#include "engine/supervisor/parents.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::string parent_name(const ParentRef& parent) {
  const std::string label = element_label(parent.element);
  return label.empty() ? parent.step : parent.step + "[" + label + "]";
}

/// The state in which the newest attempt of a job is.
std::optional<JobState> newest_state(const fs::path& job_directory) {
  const std::vector<int> numbers = attempts(job_directory);
  if (numbers.empty()) return std::nullopt;
  std::optional<JobState> state;
  for (const JobEvent& event : attempt_events(job_directory, "", numbers.back())) {
    if (event.state) state = event.state;
  }
  return state;
}

ParentRecord read_parent(const JobSpec& spec, const ParentRef& parent) {
  ParentRecord record;
  record.left.step = parent.step;
  record.element = parent.element;
  if (const auto result = published_result(parent.directory)) {
    if (result->outputs.is_object()) record.left.outputs = result->outputs;
    if (result->metrics.is_object()) record.left.metrics = result->metrics;
    return record;
  }
  const auto state = newest_state(parent.directory);
  if (state == JobState::Skipped) {
    record.skipped = true;
    return record;
  }
  throw Error(Errc::InvalidInput,
              spec.job + " must not run: " + parent_name(parent) + " " +
                  (state ? "is " + std::string(name(*state)) : std::string("has no record")) +
                  " in " + parent.directory.string() +
                  (state ? "" : "; `dlflow resubmit " + spec.run + "` runs it again"));
}

Json value_of(const ParentRecord& parent, const Reference& reference) {
  const bool metric = reference.path[2] == "metrics";
  const std::string& key = reference.path[3];
  const Json& values = metric ? parent.left.metrics : parent.left.outputs;
  const auto found = values.find(key);
  if (found != values.end()) return metric ? *found : found->at("value");
  std::vector<std::string> keys;
  for (const auto& [name, value] : values.items()) keys.push_back(name);
  throw Error(Errc::InvalidInput, to_string(reference) + ": step '" + parent.left.step +
                                      "' left no " + (metric ? "metric" : "output") + " '" + key +
                                      "'; it has " + (keys.empty() ? "none" : join(keys, ", ")));
}

}  // namespace

std::vector<ParentRecord> read_parents(const JobSpec& spec) {
  std::vector<ParentRecord> records;
  for (const ParentRef& parent : spec.parents) records.push_back(read_parent(spec, parent));
  return records;
}

bool have_ended(const std::vector<ParentRef>& parents) {
  return std::all_of(parents.begin(), parents.end(), [](const ParentRef& parent) {
    if (published_result(parent.directory)) return true;
    const auto state = newest_state(parent.directory);
    return state && is_final(*state);
  });
}

bool refers_to_skipped(const std::vector<Reference>& references,
                       const std::vector<ParentRecord>& parents) {
  for (const Reference& reference : references) {
    if (reference.path.size() < 2 || reference.path[0] != "steps") continue;
    for (const ParentRecord& parent : parents) {
      if (parent.skipped && parent.left.step == reference.path[1]) return true;
    }
  }
  return false;
}

Json parent_value(const Reference& reference, const Json& element,
                  const std::vector<ParentRecord>& parents) {
  DLFLOW_CHECK(reference.path.size() == 4);
  std::vector<const ParentRecord*> of_step;
  for (const ParentRecord& parent : parents) {
    if (parent.left.step == reference.path[1]) of_step.push_back(&parent);
  }
  if (of_step.empty()) {
    throw Error(Errc::InvalidInput, to_string(reference) + ": it is not among the parents");
  }
  const Json& first = of_step.front()->element;
  if (of_step.size() == 1 && (first.empty() || first == element)) {
    return value_of(*of_step.front(), reference);
  }
  Json list = Json::array();
  for (const ParentRecord* parent : of_step) list.push_back(value_of(*parent, reference));
  return list;
}

}  // namespace dlflow
