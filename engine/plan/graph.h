#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/workflow.h"

/// The DAG: between steps, and between the jobs that their matrices make of them. Edges between
/// jobs are ranges, so that 50,000 jobs that wait for 50,000 others cost no more than one.
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

/// For each step whether `until` is it or needs it, directly or not.
/// Throws Error{InvalidInput} for an unknown step, with a suggestion.
std::vector<bool> needed_for(const Workflow& workflow, const std::string& until);

/// How the jobs of a step depend on those of one that it needs. Axes of the same name are compared
/// by their values.
struct StepEdge {
  enum class Kind {
    All,    ///< no axis in common: each job of the child waits for all of the parent's
    One,    ///< all of the parent's axes are the child's, too: for the one with the same values
    Lists,  ///< the parent has further axes: for those with the same values of the common ones
  };
  uint32_t parent = 0;  ///< step index
  Kind kind = Kind::All;
  /// Of One: the parent's element for each of the child's; empty if it is the same one.
  std::vector<uint32_t> partner = {};
  /// Of Lists: the list that each of the child's elements waits for; the parent's elements in each.
  std::vector<uint32_t> list_of = {};
  std::vector<std::vector<JobRange>> lists = {};
};

/// The edge from `child` to `parent`, given the elements of both. Throws Error{InvalidInput} if an
/// element of the child has no counterpart. \param common_axes  false: only steps with the same
/// axes are compared, as in runs of earlier versions; all others wait for all of each other.
StepEdge step_edge(const Workflow& workflow, uint32_t child, uint32_t parent,
                   const std::vector<Json>& child_elements,
                   const std::vector<Json>& parent_elements, bool common_axes = true);

class Graph {
 public:
  Graph() = default;

  /// `jobs[s]` are the jobs of step s (none: not planned), `edges[s]` its edges to parents in the
  /// order of `needs`.
  Graph(std::vector<JobRange> jobs, std::vector<std::vector<StepEdge>> edges);

  /// What `job` waits for, in the order of `needs`; of one step in ascending order.
  std::vector<JobRange> parents(uint32_t job) const;

  /// What waits for `job`.
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
    std::vector<uint32_t> list_of;                       // by the parent's element, or kNoList
    std::vector<std::vector<JobRange>> lists;            // the child's elements that wait for each
  };
  static constexpr uint32_t kNoList = UINT32_MAX;
  static Child child_of(const StepEdge& edge, uint32_t step, uint32_t num_parents);

  std::vector<JobRange> jobs_;
  std::vector<std::vector<StepEdge>> edges_;
  std::vector<std::vector<Child>> children_;
  std::vector<uint32_t> step_of_;
};

}  // namespace dlflow
