#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engine/model/check.h"
#include "engine/model/parse_step.h"
#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

class Linker {
 public:
  Linker(std::vector<ParsedStep>& steps, Mistakes& mistakes) : steps_(steps), mistakes_(mistakes) {
    for (const ParsedStep& parsed : steps) {
      numbers_.emplace(parsed.step.name, names_.size());
      names_.push_back(parsed.step.name);
    }
    edges_.resize(steps.size());
  }

  void link() {
    for (size_t step = 0; step < steps_.size(); ++step) {
      parents_.clear();
      for (const Need& need : steps_[step].needs) add_need(step, need);
      for (const Reference& reference : steps_[step].references) add_reference(step, reference);
      for (const MatrixAxis& axis : steps_[step].step.matrix.axes) {
        if (axis.source) check_source(step, axis);
      }
    }
    for (const auto& [step, reference] : axis_references_) check_axis(step, reference);
    report_cycles();
  }

 private:
  struct Edge {
    size_t parent;
    Location location;
  };

  std::string title(size_t step) const { return "step '" + names_[step] + "'"; }

  void add_need(size_t step, const Need& need) {
    const auto found = numbers_.find(need.step);
    if (found == numbers_.end()) {
      mistakes_.add(need.location, title(step) + " needs '" + need.step +
                                       "', which does not exist" +
                                       mistakes_.advice(need.step, names_));
    } else if (found->second == step) {
      mistakes_.add(need.location, title(step) + " needs itself");
    } else {
      const bool is_repeated = parents_.contains(found->second);
      if (is_repeated) steps_[step].step.needed_twice.push_back(need.step);
      add_edge(step, {found->second, need.location});
    }
  }

  void add_reference(size_t step, const Reference& reference) {
    const std::string& name = reference.path[1];
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      mistakes_.add(reference.location, "unknown step '" + name + "' in " + to_string(reference) +
                                            mistakes_.advice(name, names_));
      return;
    }
    if (found->second == step) {
      mistakes_.add(reference.location,
                    title(step) + " refers to itself in " + to_string(reference));
      return;
    }
    add_edge(step, {found->second, reference.location});
    if (reference.path[2] == "outputs") check_output(found->second, reference);
    if (reference.path[2] == "matrix") axis_references_.push_back({found->second, reference});
  }

  /// The steps that a selecting step refers to as candidates; empty if it selects nothing, or is
  /// wrong.
  std::vector<size_t> selected_from(size_t step) const {
    std::vector<size_t> steps;
    const StepKind* kind = find_step_kind(steps_[step].step.uses);
    if (kind == nullptr || kind->selects_from.empty()) return steps;
    const Json from = steps_[step].step.with.source().value(kind->selects_from, Json());
    const Template text(from);
    for (const Reference& reference : text.references()) {
      if (reference.path[0] != "steps") continue;
      const auto found = numbers_.find(reference.path[1]);
      if (found != numbers_.end()) steps.push_back(found->second);
    }
    return steps;
  }

  /// The steps whose axes steps.NAME.matrix may name: NAME itself and all steps it selects from.
  std::vector<size_t> steps_with_axes_of(size_t step) const {
    std::vector<size_t> all = {step};
    for (size_t next = 0; next < all.size(); ++next) {
      for (const size_t from : selected_from(all[next])) {
        if (std::find(all.begin(), all.end(), from) == all.end()) all.push_back(from);
      }
    }
    return all;
  }

  void check_axis(size_t step, const Reference& reference) {
    const std::string& axis = reference.path[3];
    std::vector<std::string> axes;
    for (const size_t other : steps_with_axes_of(step)) {
      const ParsedStep& parsed = steps_[other];
      if (parsed.matrix_is_wrong) return;
      const std::vector<std::string> names = axis_names(parsed.step.matrix);
      if (std::find(names.begin(), names.end(), axis) != names.end()) {
        check_key(parsed.step.matrix, reference, 4, mistakes_);
        return;
      }
      axes.insert(axes.end(), names.begin(), names.end());
    }
    const bool selects = !selected_from(step).empty();
    mistakes_.add(
        reference.location,
        axes.empty()
            ? to_string(reference) + " has no value, since " + title(step) +
                  (selects ? " selects from steps without a matrix" : " has no matrix")
            : title(step) + " has no axis '" + axis + "'" + mistakes_.advice_or_list(axis, axes));
  }

  /// The list must come from a run step without a matrix.
  void check_source(size_t step, const MatrixAxis& axis) {
    const auto found = numbers_.find(axis.source->step);
    if (found == numbers_.end() || found->second == step) return;  // reported already
    const Step& source = steps_[found->second].step;
    const Location location = steps_[step].step.location_of("matrix." + axis.name);
    const std::string what = "matrix." + axis.name + " of " + title(step);
    if (!source.uses.empty()) {
      mistakes_.add(location,
                    what + ": what step kind '" + source.uses +
                        "' writes is not a list; a run step can write one, as a JSON file");
    } else if (!source.matrix.empty()) {
      mistakes_.add(location, what + ": " + title(found->second) +
                                  " has a matrix itself, so it writes many lists; let one step "
                                  "without a matrix combine them");
    }
  }

  void check_output(size_t parent, const Reference& reference) {
    const auto& outputs = steps_[parent].outputs;
    const std::string& key = reference.path[3];
    if (!outputs || std::find(outputs->begin(), outputs->end(), key) != outputs->end()) return;
    const std::string advice =
        outputs->empty() ? "; it has none" : mistakes_.advice_or_list(key, *outputs);
    const bool can_declare = steps_[parent].step.uses.empty();
    mistakes_.add(
        reference.location,
        title(parent) + " has no output '" + key + "'" + advice +
            (can_declare ? "; a run step declares them: outputs: {" + key + ": FILE}" : ""));
  }

  void add_edge(size_t step, Edge edge) {
    if (!parents_.insert(edge.parent).second) return;
    steps_[step].step.needs.push_back(names_[edge.parent]);
    edges_[step].push_back(edge);
  }

  /// Searches depth first, without recursion, since a chain may be as long as the file. An edge to
  /// a step that is still open closes a cycle.
  void report_cycles() {
    enum class Mark { New, Open, Done };
    std::vector<Mark> marks(steps_.size(), Mark::New);
    struct Visit {
      size_t step;
      size_t next_edge = 0;
    };
    for (size_t start = 0; start < steps_.size(); ++start) {
      if (marks[start] != Mark::New) continue;
      std::vector<Visit> path = {{start}};
      marks[start] = Mark::Open;
      while (!path.empty()) {
        Visit& visit = path.back();
        if (visit.next_edge == edges_[visit.step].size()) {
          marks[visit.step] = Mark::Done;
          path.pop_back();
          continue;
        }
        const Edge& edge = edges_[visit.step][visit.next_edge++];
        if (marks[edge.parent] == Mark::Open) {
          const auto first = std::ranges::find(path, edge.parent, &Visit::step);
          std::vector<size_t> cycle;
          for (auto v = first; v != path.end(); ++v) cycle.push_back(v->step);
          report_cycle(cycle, edge.location);
        } else if (marks[edge.parent] == Mark::New) {
          marks[edge.parent] = Mark::Open;
          path.push_back({edge.parent});
        }
      }
    }
  }

  /// `cycle` goes from each step to one that it needs; the message follows the order of execution.
  void report_cycle(const std::vector<size_t>& cycle, Location location) {
    std::vector<std::string> path = {names_[cycle.front()]};
    for (size_t i = cycle.size(); i-- > 0;) path.push_back(names_[cycle[i]]);
    mistakes_.add(location, "steps form a cycle: " + join(path, " → "));
  }

  std::vector<ParsedStep>& steps_;
  Mistakes& mistakes_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::pair<size_t, Reference>> axis_references_;
  std::unordered_set<size_t> parents_;  // of the step being linked
};

}  // namespace

void link_steps(std::vector<ParsedStep>& steps, Mistakes& mistakes) {
  Linker(steps, mistakes).link();
}

}  // namespace dlflow
