#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/workflow.h"

/// The DAG of steps, and of the jobs that their matrices expand to. Edges between jobs are ranges:
/// if 50,000 jobs wait for 50,000 others, that costs no more than a single edge.
namespace dlflow {

/// Jobs `first` to `first + count - 1`.
struct JobRange {
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const JobRange&) const = default;
};

/// The steps of `workflow` (indices), parents before children, otherwise in file order. The parser
/// has made sure that `needs` name steps and form no cycle.
std::vector<uint32_t> topological_order(const Workflow& workflow);

/// Marks each step that `until` needs, directly or indirectly, and `until` itself. Throws
/// Error{InvalidInput} for an unknown step, with a suggestion.
std::vector<bool> needed_for(const Workflow& workflow, const std::string& until);

/// How the jobs of a step depend on the jobs of a step that it needs. Axes with the same name are
/// compared by value.
struct StepEdge {
  enum class Kind {
    All,    ///< no common axis: each job of the child waits for all jobs of the parent
    One,    ///< the child has all axes of the parent: waits for the one with the same values
    Lists,  ///< the parent has further axes: waits for those with the same common values
  };
  uint32_t parent = 0;  ///< step index
  Kind kind = Kind::All;
  /// For One: the parent's element for each child's element; empty if the indices are the same.
  std::vector<uint32_t> partner = {};
  /// For Lists: the list that each child's element waits for; the parent's elements in each list.
  std::vector<uint32_t> list_of = {};
  std::vector<std::vector<JobRange>> lists = {};
};

/// The edge from `child` to `parent`, given the elements of both. Throws Error{InvalidInput} if an
/// element of the child has no counterpart. \param common_axes  false, as in runs of earlier
/// versions: unless the axes are all the same, each job of the child waits for all of the parent's.
StepEdge step_edge(const Workflow& workflow, uint32_t child, uint32_t parent,
                   const std::vector<Json>& child_elements,
                   const std::vector<Json>& parent_elements, bool common_axes = true);

class Graph {
 public:
  Graph() = default;

  /// `jobs[s]` are the jobs of step s (empty: not planned), `edges[s]` its edges to parents in the
  /// order of `needs`.
  Graph(std::vector<JobRange> jobs, std::vector<std::vector<StepEdge>> edges);

  /// The jobs that `job` waits for, in the order of `needs`, ascending within a step.
  std::vector<JobRange> parents(uint32_t job) const;

  /// The jobs that wait for `job`.
  std::vector<JobRange> children(uint32_t job) const;

  /// Calls `visit` with each job that `job` waits for.
  template <typename Visit>
  void each_parent(uint32_t job, const Visit& visit) const {
    for (const JobRange& range : parents(job)) {
      for (uint32_t i = 0; i < range.count; ++i) visit(range.first + i);
    }
  }

  /// Calls `visit` with each job that waits for `job`.
  template <typename Visit>
  void each_child(uint32_t job, const Visit& visit) const {
    for (const JobRange& range : children(job)) {
      for (uint32_t i = 0; i < range.count; ++i) visit(range.first + i);
    }
  }

  size_t num_jobs() const { return step_of_.size(); }
  size_t num_parents(uint32_t job) const;

 private:
  /// A StepEdge seen from the parent.
  struct Child {
    uint32_t step = 0;
    StepEdge::Kind kind = StepEdge::Kind::All;
    std::vector<std::pair<uint32_t, uint32_t>> members;  // (parent's element, child's), sorted
    std::vector<uint32_t> list_of;             // for each parent's element: its list, or kNoList
    std::vector<std::vector<JobRange>> lists;  // the child's elements that wait for each list
  };
  static constexpr uint32_t kNoList = UINT32_MAX;
  static Child child_of(const StepEdge& edge, uint32_t step, uint32_t num_parents);

  std::vector<JobRange> jobs_;
  std::vector<std::vector<StepEdge>> edges_;
  std::vector<std::vector<Child>> children_;
  std::vector<uint32_t> step_of_;
};

}  // namespace dlflow
