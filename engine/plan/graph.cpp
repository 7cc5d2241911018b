#include "engine/plan/graph.h"

#include <algorithm>
#include <functional>
#include <iterator>
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

/// The names of the axes that both matrices have, sorted.
std::vector<std::string> common_axes_of(const Matrix& a, const Matrix& b) {
  std::vector<std::string> first = axis_names(a);
  std::vector<std::string> second = axis_names(b);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  std::vector<std::string> common;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(),
                        std::back_inserter(common));
  return common;
}

bool is_open_axis(const Matrix& matrix, const std::string& name) {
  return std::ranges::any_of(
      matrix.axes, [&](const MatrixAxis& axis) { return axis.name == name && axis.is_open(); });
}

/// The values of `axes` only.
Json part_of(const Json& element, const std::vector<std::string>& axes) {
  Json part = Json::object();
  for (const std::string& axis : axes) part[axis] = element.at(axis);
  return part;
}

[[noreturn]] void no_counterpart(const Workflow& workflow, const Step& child, const Step& parent,
                                 const Json& element, const Json& part) {
  const std::string message = child.name + "[" + element_label(element) +
                              "] has no counterpart in step '" + parent.name +
                              "': no element there has " + element_label(part) +
                              "; give both the same values, or name the axis differently to "
                              "depend on all of its elements";
  throw_at(workflow, child.location, message);
}

void add_to(std::vector<JobRange>& ranges, uint32_t element) {
  if (!ranges.empty() && ranges.back().first + ranges.back().count == element) {
    ++ranges.back().count;
  } else {
    ranges.push_back({element, 1});
  }
}

}  // namespace

std::vector<uint32_t> topological_order(const Workflow& workflow) {
  const auto numbers = step_numbers(workflow);
  const size_t num_steps = workflow.steps.size();
  std::vector<size_t> missing(num_steps);
  std::vector<std::vector<uint32_t>> children(num_steps);
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;  // in file order
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
  DLFLOW_CHECK(order.size() == num_steps);  // holds because the parser refuses cycles
  return order;
}

std::vector<bool> needed_for(const Workflow& workflow, const std::string& until) {
  const auto numbers = step_numbers(workflow);
  if (!numbers.contains(until)) {
    throw Error(Errc::InvalidInput, workflow.file + " has no step '" + until + "'" +
                                        did_you_mean_or_list(until, step_names(workflow)));
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
                   const std::vector<Json>& parent_elements, bool common_axes) {
  const Step& from = workflow.steps[parent];
  const Step& to = workflow.steps[child];
  StepEdge edge{.parent = parent};
  const std::vector<std::string> common = common_axes_of(from.matrix, to.matrix);
  const bool one = common.size() == axis_names(from.matrix).size();
  const bool same_axes = one && common.size() == axis_names(to.matrix).size();
  if (common.empty() || (!common_axes && !same_axes)) return edge;
  const bool is_comparable = std::ranges::all_of(common, [&](const std::string& axis) {
    return is_open_axis(from.matrix, axis) == is_open_axis(to.matrix, axis);
  });
  if (!is_comparable) return edge;  // All: no job of these steps runs before the values are known
  edge.kind = one ? StepEdge::Kind::One : StepEdge::Kind::Lists;
  const bool same_elements =
      &child_elements == &parent_elements || child_elements == parent_elements;
  if (same_axes && same_elements) return edge;
  std::map<Json, uint32_t> numbers;  // common values -> the parent's element (One) or list (Lists)
  for (uint32_t e = 0; e < parent_elements.size(); ++e) {
    const uint32_t next = one ? e : uint32_t(edge.lists.size());
    const auto [known, is_new] = numbers.emplace(part_of(parent_elements[e], common), next);
    if (one) continue;
    if (is_new) edge.lists.emplace_back();
    add_to(edge.lists[known->second], e);
  }
  for (const Json& element : child_elements) {
    const Json part = part_of(element, common);
    const auto found = numbers.find(part);
    if (found == numbers.end()) no_counterpart(workflow, to, from, element, part);
    (one ? edge.partner : edge.list_of).push_back(found->second);
  }
  return edge;
}

Graph::Child Graph::child_of(const StepEdge& edge, uint32_t step, uint32_t num_parents) {
  Child child{.step = step, .kind = edge.kind, .members = {}, .list_of = {}, .lists = {}};
  for (uint32_t e = 0; e < edge.partner.size(); ++e) {
    child.members.emplace_back(edge.partner[e], e);
  }
  std::sort(child.members.begin(), child.members.end());
  if (edge.kind != StepEdge::Kind::Lists) return child;
  child.list_of.assign(num_parents, kNoList);
  for (uint32_t list = 0; list < edge.lists.size(); ++list) {
    for (const JobRange& range : edge.lists[list]) {
      std::fill_n(child.list_of.begin() + range.first, range.count, list);
    }
  }
  child.lists.resize(edge.lists.size());
  for (uint32_t e = 0; e < edge.list_of.size(); ++e) add_to(child.lists[edge.list_of[e]], e);
  return child;
}

Graph::Graph(std::vector<JobRange> jobs, std::vector<std::vector<StepEdge>> edges)
    : jobs_(std::move(jobs)), edges_(std::move(edges)), children_(jobs_.size()) {
  for (uint32_t step = 0; step < jobs_.size(); ++step) {
    const JobRange range = jobs_[step];
    if (step_of_.size() < range.first + range.count) step_of_.resize(range.first + range.count);
    std::fill_n(step_of_.begin() + range.first, range.count, step);
    if (range.count == 0) continue;
    for (const StepEdge& edge : edges_[step]) {
      children_[edge.parent].push_back(child_of(edge, step, jobs_[edge.parent].count));
    }
  }
}

std::vector<JobRange> Graph::parents(uint32_t job) const {
  const uint32_t step = step_of_[job];
  const uint32_t element = job - jobs_[step].first;
  std::vector<JobRange> result;
  for (const StepEdge& edge : edges_[step]) {
    const JobRange all = jobs_[edge.parent];
    if (edge.kind == StepEdge::Kind::All) {
      result.push_back(all);
    } else if (edge.kind == StepEdge::Kind::One) {
      const uint32_t partner = edge.partner.empty() ? element : edge.partner[element];
      result.push_back({all.first + partner, 1});
    } else {
      for (const JobRange& range : edge.lists[edge.list_of[element]]) {
        result.push_back({all.first + range.first, range.count});
      }
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
    if (child.kind == StepEdge::Kind::All) {
      result.push_back(all);
    } else if (child.kind == StepEdge::Kind::Lists) {
      if (child.list_of[element] == kNoList) continue;
      for (const JobRange& range : child.lists[child.list_of[element]]) {
        result.push_back({all.first + range.first, range.count});
      }
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
