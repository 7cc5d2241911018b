#include "engine/plan/graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "base/error.h"
#include "base/text.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

std::map<std::string, uint32_t> step_numbers(const Workflow& workflow) {
  std::map<std::string, uint32_t> numbers;
  for (const Step& step : workflow.steps) numbers.emplace(step.name, uint32_t(numbers.size()));
  return numbers;
}

std::vector<std::string> sorted_axes(const Matrix& matrix) {
  std::vector<std::string> names = axis_names(matrix);
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void no_counterpart(const Workflow& workflow, const Step& child, const Step& parent,
                                 const Json& element) {
  const std::string message = child.name + "[" + element_label(element) +
                              "] has no counterpart in step '" + parent.name +
                              "', whose matrix has the same axes; give both the same values, or "
                              "name the axes differently to depend on all of its elements";
  throw_at(workflow, child.location, message);
}

}  // namespace

std::vector<uint32_t> topological_order(const Workflow& workflow) {
  const auto numbers = step_numbers(workflow);
  const size_t num_steps = workflow.steps.size();
  std::vector<size_t> missing(num_steps);
  std::vector<std::vector<uint32_t>> children(num_steps);
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;  // file order
  for (uint32_t step = 0; step < num_steps; ++step) {
    const auto& needs = workflow.steps[step].needs;
    missing[step] = needs.size();
    for (const std::string& need : needs) children[numbers.at(need)].push_back(step);
    if (needs.empty()) ready.push(step);
  }
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const uint32_t child : children[order.back()]) {
      if (--missing[child] == 0) ready.push(child);
    }
  }
  DLFLOW_CHECK(order.size() == num_steps);  // the parser refuses cycles
  return order;
}

std::vector<bool> needed_for(const Workflow& workflow, const std::string& until) {
  const auto numbers = step_numbers(workflow);
  if (!numbers.contains(until)) {
    std::vector<std::string> names;
    for (const Step& step : workflow.steps) names.push_back(step.name);
    throw Error(Errc::InvalidInput,
                workflow.file + " has no step '" + until + "'" + did_you_mean(until, names));
  }
  std::vector<bool> needed(workflow.steps.size(), false);
  std::vector<uint32_t> open = {numbers.at(until)};
  while (!open.empty()) {
    const uint32_t step = open.back();
    open.pop_back();
    if (needed[step]) continue;
    needed[step] = true;
    for (const std::string& need : workflow.steps[step].needs) open.push_back(numbers.at(need));
  }
  return needed;
}

StepEdge step_edge(const Workflow& workflow, uint32_t child, uint32_t parent,
                   const std::vector<Json>& child_elements,
                   const std::vector<Json>& parent_elements) {
  const Step& from = workflow.steps[parent];
  const Step& to = workflow.steps[child];
  StepEdge edge{.parent = parent, .element_wise = false, .partner = {}};
  if (from.matrix.empty() || to.matrix.empty() ||
      sorted_axes(from.matrix) != sorted_axes(to.matrix)) {
    return edge;
  }
  edge.element_wise = true;
  if (&child_elements == &parent_elements || child_elements == parent_elements) return edge;
  std::map<Json, uint32_t> parents;
  for (uint32_t e = 0; e < parent_elements.size(); ++e) parents.emplace(parent_elements[e], e);
  for (const Json& element : child_elements) {
    const auto found = parents.find(element);
    if (found == parents.end()) no_counterpart(workflow, to, from, element);
    edge.partner.push_back(found->second);
  }
  return edge;
}

Graph::Graph(std::vector<JobRange> jobs, std::vector<std::vector<StepEdge>> edges)
    : jobs_(std::move(jobs)), edges_(std::move(edges)), children_(jobs_.size()) {
  for (uint32_t step = 0; step < jobs_.size(); ++step) {
    const JobRange range = jobs_[step];
    if (step_of_.size() < range.first + range.count) step_of_.resize(range.first + range.count);
    std::fill_n(step_of_.begin() + range.first, range.count, step);
    if (range.count == 0) continue;
    for (const StepEdge& edge : edges_[step]) {
      Child child{.step = step, .element_wise = edge.element_wise, .members = {}};
      for (uint32_t e = 0; e < edge.partner.size(); ++e) {
        child.members.emplace_back(edge.partner[e], e);
      }
      std::sort(child.members.begin(), child.members.end());
      children_[edge.parent].push_back(std::move(child));
    }
  }
}

std::vector<JobRange> Graph::parents(uint32_t job) const {
  const uint32_t step = step_of_[job];
  const uint32_t element = job - jobs_[step].first;
  std::vector<JobRange> result;
  for (const StepEdge& edge : edges_[step]) {
    const JobRange all = jobs_[edge.parent];
    if (!edge.element_wise) {
      result.push_back(all);
    } else {
      const uint32_t partner = edge.partner.empty() ? element : edge.partner[element];
      result.push_back({all.first + partner, 1});
    }
  }
  return result;
}

std::vector<JobRange> Graph::children(uint32_t job) const {
  const uint32_t step = step_of_[job];
  const uint32_t element = job - jobs_[step].first;
  std::vector<JobRange> result;
  for (const Child& child : children_[step]) {
    const JobRange all = jobs_[child.step];
    if (!child.element_wise) {
      result.push_back(all);
    } else if (child.members.empty()) {
      result.push_back({all.first + element, 1});
    } else {
      auto member = std::lower_bound(child.members.begin(), child.members.end(),
                                     std::pair<uint32_t, uint32_t>(element, 0));
      for (; member != child.members.end() && member->first == element; ++member) {
        result.push_back({all.first + member->second, 1});
      }
    }
  }
  return result;
}

size_t Graph::num_parents(uint32_t job) const {
  size_t count = 0;
  for (const JobRange& range : parents(job)) count += range.count;
  return count;
}

}  // namespace dlflow
