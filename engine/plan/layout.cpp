#include "engine/plan/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

/// Above this, the user is told to put a step that waits for all elements between the two.
constexpr uint64_t kMaxEdges = 5'000'000;

bool same_matrix(const Matrix& a, const Matrix& b) {
  return std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [](const MatrixAxis& x, const MatrixAxis& y) {
                      return x.name == y.name && x.values == y.values;
                    }) &&
         a.include == b.include && a.exclude == b.exclude && a.zip == b.zip;
}

/// The elements of step `step`; steps with the same matrix share them.
std::shared_ptr<const std::vector<Json>> elements_of(const Plan& plan, uint32_t step) {
  const Matrix& matrix = plan.workflow.steps[step].matrix;
  for (uint32_t other = 0; other < plan.steps.size(); ++other) {
    const auto& elements = plan.steps[other].elements;
    if (elements && same_matrix(matrix, plan.workflow.steps[other].matrix)) return elements;
  }
  return std::make_shared<const std::vector<Json>>(matrix_elements(matrix));
}

/// Labels name folders: unique, and no longer than file systems allow.
class Labels {
 public:
  explicit Labels(size_t count) { taken_.reserve(count); }

  /// Returns a label that is not yet taken.
  std::string unique(const Json& element) const {
    constexpr size_t kMaxLength = 180;
    std::string label = element_label(element);
    if (label.empty()) label = "element";
    if (label.size() > kMaxLength) {
      label = label.substr(0, kMaxLength) + "-" + sha256_hex(label).substr(0, 8);
    }
    std::string candidate = label;
    for (int n = 2; taken_.contains(candidate); ++n) candidate = label + "-" + std::to_string(n);
    return candidate;
  }

  /// \param label  must stay at its address
  void take(std::string_view label) { taken_.insert(label); }

 private:
  std::unordered_set<std::string_view> taken_;
};

Resources resources_of(const Plan& plan, const Step& step, const Json& element) {
  const Workflow& workflow = plan.workflow;
  const Context known{.params = &workflow.params, .matrix = &element};
  try {
    Json asked = step.resources.evaluate(known);
    if (asked.is_object() && asked.value("ranks", Json()) == kAutomaticRanks) {
      const auto found = plan.options.automatic_ranks.find(step.name);
      asked["ranks"] = found == plan.options.automatic_ranks.end() ? 1 : found->second;
    }
    return resources_from_json(asked);
  } catch (const Error& error) {
    const std::string label = element_label(element);
    throw_at(
        workflow, step.location_of("resources"),
        "step '" + step.name + (label.empty() ? "" : "[" + label + "]") + "': " + error.what());
  }
}

/// Requires capacity in plan.jobs.
/// \param twin  the first job of a step with the same elements and so the same labels, or null
void add_jobs(Plan& plan, uint32_t step_number, const PlannedJob* twin) {
  const Step& step = plan.workflow.steps[step_number];
  const std::vector<Json>& elements = *plan.steps[step_number].elements;
  const bool same_for_all = !depends_on_element(step.resources);
  const bool are_known = same_for_all || !plan.steps[step_number].open;
  Labels labels(twin == nullptr ? elements.size() : 0);
  std::shared_ptr<const Resources> resources = one_rank;
  for (uint32_t e = 0; e < elements.size(); ++e) {
    const bool is_new = e == 0 || !same_for_all;
    if (is_new && are_known) {
      resources = std::make_shared<const Resources>(resources_of(plan, step, elements[e]));
    }
    PlannedJob job;
    job.step = step_number;
    job.element = e;
    if (step.matrix.empty()) {
      job.name = JobName(step.name);
    } else if (twin != nullptr) {
      job.name = JobName(step.name, twin[e].name.element());
    } else {
      job.name = JobName(step.name, labels.unique(elements[e]));
    }
    job.resources = resources;
    plan.jobs.push_back(std::move(job));
    if (twin == nullptr) labels.take(plan.jobs.back().name.element());
  }
}

std::vector<StepEdge> edges_of(const Plan& plan, uint32_t step) {
  std::vector<StepEdge> edges;
  for (const std::string& need : plan.workflow.steps[step].needs) {
    const auto& steps = plan.workflow.steps;
    const auto parent = uint32_t(
        std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.name == need; }) -
        steps.begin());
    edges.push_back(step_edge(plan.workflow, step, parent, *plan.steps[step].elements,
                              *plan.steps[parent].elements, plan.options.common_axes));
  }
  return edges;
}

/// The total number of jobs that the child's elements wait for.
uint64_t num_dependencies(const StepEdge& edge, size_t num_children, size_t num_parents) {
  if (edge.kind == StepEdge::Kind::One) return num_children;
  if (edge.kind == StepEdge::Kind::All) return uint64_t(num_children) * num_parents;
  std::vector<uint64_t> sizes;
  for (const auto& list : edge.lists) {
    uint64_t size = 0;
    for (const JobRange& range : list) size += range.count;
    sizes.push_back(size);
  }
  uint64_t count = 0;
  for (const uint32_t list : edge.list_of) count += sizes[list];
  return count;
}

void check_number_of_edges(const Plan& plan, uint32_t step, const std::vector<StepEdge>& edges) {
  for (const StepEdge& edge : edges) {
    const uint64_t count = num_dependencies(edge, plan.steps[step].elements->size(),
                                            plan.steps[edge.parent].elements->size());
    if (count <= kMaxEdges) continue;
    const Step& child = plan.workflow.steps[step];
    throw_at(plan.workflow, child.location,
             "every element of step '" + child.name + "' waits for " +
                 (edge.kind == StepEdge::Kind::All ? "every element" : "many elements") +
                 " of step '" + plan.workflow.steps[edge.parent].name +
                 "': " + std::to_string(count) + " dependencies are more than " +
                 std::to_string(kMaxEdges) +
                 "; put a step without a matrix between them, or give both the same axes");
  }
}

bool acts_outside(const Step& step) {
  const StepKind* kind = find_step_kind(step.uses);
  return kind != nullptr && kind->reuse == StepKind::Reuse::Never;
}

/// For each step, the place (from 1) of the extension that makes its jobs known; 0 if they wait for
/// none, SIZE_MAX if they are not known yet.
std::vector<size_t> rounds_of(const Plan& plan, const std::vector<uint32_t>& order) {
  std::map<std::string_view, size_t> round_of_list;  // by the step that left the list
  for (const Extension& extension : plan.extensions) {
    round_of_list.emplace(extension.step, round_of_list.size() + 1);
  }
  const auto& steps = plan.workflow.steps;
  std::map<std::string_view, size_t> round_of_step;
  std::vector<size_t> rounds(steps.size(), 0);
  for (const uint32_t number : order) {
    size_t& round = rounds[number];
    for (const std::string& need : steps[number].needs) {
      round = std::max(round, round_of_step[need]);
    }
    for (const MatrixAxis& axis : steps[number].matrix.axes) {
      if (!axis.source) continue;
      const auto list = round_of_list.find(axis.source->step);
      round = std::max(round, list == round_of_list.end() ? SIZE_MAX : list->second);
    }
    round_of_step[steps[number].name] = round;
  }
  return rounds;
}

/// Parents before children, and steps that wait for no list first, so that an extension never
/// renumbers known jobs.
std::vector<uint32_t> order_of_steps(const Plan& plan) {
  std::vector<uint32_t> order = topological_order(plan.workflow);
  const std::vector<size_t> rounds = rounds_of(plan, order);
  std::ranges::stable_sort(order, {}, [&](uint32_t step) { return rounds[step]; });
  return order;
}

void check_names(const Workflow& workflow, const std::vector<std::string>& names) {
  for (const std::string& name : names) needed_for(workflow, name);  // throws if a step is unknown
}

}  // namespace

void throw_at(const Workflow& workflow, Location location, const std::string& message) {
  throw LocatedError({workflow.file, location, message});
}

bool depends_on_element(const Template& value) {
  const auto& references = value.references();
  return std::any_of(references.begin(), references.end(),
                     [](const Reference& r) { return r.path.front() == "matrix"; });
}

void lay_out(Plan& plan) {
  const Workflow& workflow = plan.workflow;
  const size_t num_steps = workflow.steps.size();
  check_names(workflow, plan.options.force);
  const std::vector<bool> wanted = plan.options.until.empty()
                                       ? std::vector<bool>(num_steps, true)
                                       : needed_for(workflow, plan.options.until);
  plan.steps.resize(num_steps);
  std::vector<JobRange> ranges(num_steps);
  std::vector<std::vector<StepEdge>> edges(num_steps);
  std::vector<uint32_t> order = order_of_steps(plan);
  std::erase_if(order, [&](uint32_t step) { return !wanted[step]; });
  size_t num_jobs = 0;
  for (const uint32_t step : order) {
    plan.steps[step].planned = true;
    plan.steps[step].open = has_open_axis(workflow.steps[step].matrix);
    plan.steps[step].elements = elements_of(plan, step);
    num_jobs += plan.steps[step].elements->size();
  }
  plan.jobs.reserve(num_jobs);
  std::map<const std::vector<Json>*, const PlannedJob*> twins;
  for (const uint32_t step : order) {
    const size_t first = plan.jobs.size();
    const PlannedJob*& twin = twins[plan.steps[step].elements.get()];
    add_jobs(plan, step, twin);
    twin = plan.jobs.data() + first;
    ranges[step] = {uint32_t(first), uint32_t(plan.jobs.size() - first)};
    edges[step] = edges_of(plan, step);
    check_number_of_edges(plan, step, edges[step]);
  }
  plan.graph = Graph(std::move(ranges), std::move(edges));
}

void decide(Plan& plan, const std::function<std::optional<KnownResult>(uint32_t job)>& find) {
  const auto& force = plan.options.force;
  const auto are_reused = [&](const JobRange& range) {
    const auto first = plan.jobs.begin() + range.first;
    return std::all_of(first, first + range.count,
                       [](const PlannedJob& job) { return job.action == Action::Reuse; });
  };
  const auto waits = [&](uint32_t job) {  // jobs with a list are not looked up before the run
    return takes_list(plan.workflow.steps[plan.jobs[job].step].matrix) ||
           !std::ranges::all_of(plan.graph.parents(job), are_reused);
  };
  for (uint32_t number = 0; number < plan.jobs.size(); ++number) {
    PlannedJob& job = plan.jobs[number];
    const std::string& step = plan.workflow.steps[job.step].name;
    if (std::find(force.begin(), force.end(), step) != force.end()) {
      job.action = Action::Run;
      job.cause = Cause::Forced;
    } else if (plan.workflow.steps[job.step].always) {
      job.action = Action::Run;
      job.cause = Cause::Always;
    } else if (acts_outside(plan.workflow.steps[job.step])) {
      job.action = Action::Run;
      job.cause = Cause::ActsOutside;
    } else if (plan.steps[job.step].open) {
      job.action = Action::DecideLater;
      job.cause = Cause::WaitsForList;
    } else if (waits(number)) {
      job.action = Action::DecideLater;
      job.cause = Cause::WaitsForParents;
    } else if (auto result = find(number)) {
      job.action = Action::Reuse;
      job.cause = Cause::NothingChanged;
      plan.reused.emplace(number, std::move(*result));
    } else {
      job.action = Action::Run;
      job.cause = Cause::NoResult;
    }
  }
}

}  // namespace dlflow
