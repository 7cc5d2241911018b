#include "engine/model/parse_needs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"

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
  }

  /// A list is what one job of a command leaves.
  void check_source(size_t step, const MatrixAxis& axis) {
    const auto found = numbers_.find(axis.source->step);
    if (found == numbers_.end() || found->second == step) return;  // reported already
    const Step& source = steps_[found->second].step;
    const auto place = steps_[step].step.locations.find("matrix." + axis.name);
    const Location location =
        place == steps_[step].step.locations.end() ? steps_[step].step.location : place->second;
    const std::string what = "matrix." + axis.name + " of " + title(step);
    if (!source.uses.empty()) {
      mistakes_.add(location, what + ": what '" + source.uses +
                                  "' leaves is no list; a run step can leave one, as a JSON file");
    } else if (!source.matrix.empty()) {
      mistakes_.add(location, what + ": " + title(found->second) +
                                  " has a matrix itself, so that it leaves many lists; let one "
                                  "step without a matrix make one of them");
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

  /// Depth first, without recursion: a chain may be as long as the file. An edge to a step that is
  /// still open closes a cycle.
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
          const auto first = std::find_if(path.begin(), path.end(),
                                          [&](const Visit& v) { return v.step == edge.parent; });
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

  /// `cycle` goes from each step to one that it needs; people read it the way the work flows.
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
  std::unordered_set<size_t> parents_;  // of the step that is being linked
};

}  // namespace

void link_steps(std::vector<ParsedStep>& steps, Mistakes& mistakes) {
  Linker(steps, mistakes).link();
}

}  // namespace dlflow
