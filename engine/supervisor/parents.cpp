#include "engine/supervisor/parents.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "engine/plan/layout.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::string parent_name(const ParentRef& parent) {
  const std::string label = element_label(parent.element);
  return label.empty() ? parent.step : parent.step + "[" + label + "]";
}

/// The state of the newest attempt of a job.
std::optional<JobState> newest_state(const fs::path& job_directory) {
  const std::vector<int> numbers = attempts(job_directory);
  if (numbers.empty()) return std::nullopt;
  const auto last = last_state(job_directory, "", numbers.back());
  return last ? last->state : std::nullopt;
}

/// Published by the newest attempt of the job: an attempt before a failed one does not count. If
/// the result comes from another run, that run's later state does not matter.
std::optional<JobEvent> newest_result(const JobSpec& spec, const ParentRef& parent) {
  auto result = published_result(parent.directory);
  const bool is_ours = parent.directory.native().starts_with(spec.run_directory.native() + "/");
  if (!result || !is_ours) return result;
  if (result->attempt != attempts(parent.directory).back()) return std::nullopt;
  return result;
}

ParentResult read_parent(const JobSpec& spec, const ParentRef& parent) {
  ParentResult left;
  left.step = parent.step;
  left.element = parent.element;
  left.directory = parent.directory;
  if (const auto result = parent.skipped ? std::nullopt : newest_result(spec, parent)) {
    if (result->outputs.is_object()) left.outputs = result->outputs;
    if (result->metrics.is_object()) left.metrics = result->metrics;
    left.fingerprint = result->fingerprint;
    return left;
  }
  const auto state = newest_state(parent.directory);
  if (const auto instead = left_without_result(parent, state, spec.always)) {
    left.skipped = instead == Left::Skipped;
    left.failed = instead == Left::Failed;
    return left;
  }
  throw Error(Errc::InvalidInput,
              spec.job + " must not run: " + parent_name(parent) + " " +
                  (state ? "is " + std::string(name(*state)) : std::string("has no record")) +
                  " in " + parent.directory.string() +
                  (state ? "" : "; `dlflow resubmit " + spec.run + "` runs it again"));
}

/// The first names of a steps reference are not part of the value's path.
constexpr size_t kAxis = 3;

Json axis_value(const ParentResult& parent, const Reference& reference) {
  const Json values = known_axes(parent);
  if (values.contains(reference.path[kAxis])) return value_in(values, reference, kAxis);
  throw Error(Errc::InvalidInput,
              to_string(reference) + ": step '" + parent.step + "' selected a result " +
                  (values.empty() ? "of no element of a matrix"
                                  : "of " + element_label(values) + ", which has no axis '" +
                                        reference.path[kAxis] + "'"));
}

Json value_of(const ParentResult& parent, const Reference& reference) {
  if (reference.path[2] == "matrix") return axis_value(parent, reference);
  const bool metric = reference.path[2] == "metrics";
  const std::string& key = reference.path[3];
  const Json& values = metric ? parent.metrics : parent.outputs;
  const auto found = values.find(key);
  if (found != values.end()) return metric ? *found : found->at("value");
  std::vector<std::string> keys;
  for (const auto& [name, value] : values.items()) keys.push_back(name);
  throw Error(Errc::InvalidInput, to_string(reference) + ": step '" + parent.step + "' left no " +
                                      (metric ? "metric" : "output") + " '" + key + "'; it has " +
                                      (keys.empty() ? "none" : join(keys, ", ")));
}

/// The value of steps.NAME.outputs.KEY, steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS (see
/// known_axes()): of the one parent of that step, or the list over all of them that left a result,
/// see is_list(). Throws Error{InvalidInput} naming the keys there are.
Json parent_value(const Reference& reference, const Json& element,
                  const std::vector<ParentResult>& parents) {
  DLFLOW_CHECK(reference.path.size() >= 4);
  std::vector<const ParentResult*> of_step;
  for (const ParentResult& parent : parents) {
    if (parent.step == reference.path[1]) of_step.push_back(&parent);
  }
  if (of_step.empty()) {
    throw Error(Errc::InvalidInput, to_string(reference) + ": it is not among the parents");
  }
  if (!is_list(of_step.size(), of_step.front()->element, element)) {
    return value_of(*of_step.front(), reference);
  }
  Json list = Json::array();
  for (const ParentResult* parent : of_step) {
    if (!parent->skipped && !parent->failed) list.push_back(value_of(*parent, reference));
  }
  return list;
}

/// Places of data that a parent named, in the form that the program needs: those that the plan knew
/// are absolute already.
void make_absolute(const JobSpec& spec, Json& with) {
  visit_paths(spec.uses, with, [&](const std::string&, PathRole role, Json& path) {
    if (role != PathRole::Outside || spec.base.empty()) return;
    const std::filesystem::path place = path.get<std::string>();
    if (place.is_relative()) path = (spec.base / place).lexically_normal().string();
  });
}

}  // namespace

std::vector<ParentResult> read_parents(const JobSpec& spec) {
  std::vector<ParentResult> parents;
  for (const ParentRef& parent : spec.parents) parents.push_back(read_parent(spec, parent));
  return parents;
}

bool have_ended(const std::vector<ParentRef>& parents) {
  return std::all_of(parents.begin(), parents.end(), [](const ParentRef& parent) {
    if (published_result(parent.directory)) return true;
    const auto state = newest_state(parent.directory);
    return state && is_final(*state);
  });
}

Inputs judge(const std::vector<Reference>& references, const JobSpec& spec,
             const std::vector<ParentResult>& parents) {
  std::set<std::string> names;
  for (const Reference& reference : references) {
    if (reference.path.size() > 1 && reference.path[0] == "steps") names.insert(reference.path[1]);
  }
  UsedParents used;
  for (const ParentResult& parent : parents) {
    if (!names.contains(parent.step)) continue;
    const Left left = parent.failed ? Left::Failed : parent.skipped ? Left::Skipped : Left::Result;
    used.add(parent.step, parent.element, left);
  }
  return used.judge(spec.element, spec.always);
}

ResolvedJob resolve(const JobSpec& spec, const std::vector<ParentResult>& parents) {
  const Json run = {{"id", spec.run}, {"directory", spec.run_directory.string()}};
  Json params = spec.params;
  params.update(spec.late_params);
  Context context{.params = &params, .matrix = &spec.element, .run = &run};
  context.steps = [&](const Reference& reference) {
    return parent_value(reference, spec.element, parents);
  };
  const Template condition(spec.condition);
  const Template with(spec.with);
  const Template environment(spec.environment);
  // A script is no template: `${{` in it was refused by the parser.
  const Template command(spec.run_command.is_string() ? Json() : spec.run_command);
  std::vector<Reference> references;
  for (const Template* part : {&condition, &with, &environment, &command}) {
    references.insert(references.end(), part->references().begin(), part->references().end());
  }
  const Inputs inputs = judge(references, spec, parents);
  if (inputs.kind == Inputs::Kind::Block) throw Block{words(inputs)};
  if (inputs.kind == Inputs::Kind::Skip) throw Skip{words(inputs)};
  if (!spec.condition.is_null()) {
    const Json wanted = condition.evaluate(context);
    if (!wanted.is_boolean()) {
      throw Error(Errc::InvalidInput,
                  "`if:` is " + wanted.dump() + ", which is neither true nor false");
    }
    if (!wanted.get<bool>()) throw Skip{"its `if:` is false"};
  }
  ResolvedJob job;
  job.with = with.evaluate(context);
  make_absolute(spec, job.with);
  job.environment = environment.evaluate(context);
  if (spec.uses.empty()) job.ranks = plan_ranks(spec, job.environment);
  job.run_command = spec.run_command.is_string() ? spec.run_command : command.evaluate(context);
  return job;
}

}  // namespace dlflow
