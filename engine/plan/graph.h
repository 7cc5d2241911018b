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

/// How the jobs of a step depend on those of one that it needs.
struct StepEdge {
  uint32_t parent = 0;  ///< step index
  /// The same axes on both sides: job for job. partner[e] is the parent's element for element e of
  /// the child; empty if it is e itself. Else each job of the child waits for all of the parent's.
  bool element_wise = false;
  std::vector<uint32_t> partner;
};

/// The edge from `child` to `parent`, given the elements of both. Throws Error{InvalidInput} if the
/// axes are the same and an element of the child has no counterpart.
StepEdge step_edge(const Workflow& workflow, uint32_t child, uint32_t parent,
                   const std::vector<Json>& child_elements,
                   const std::vector<Json>& parent_elements);

class Graph {
 public:
  Graph() = default;

  /// `jobs[s]` are the jobs of step s (none: not planned), `edges[s]` its edges to parents in the
  /// order of `needs`.
  Graph(std::vector<JobRange> jobs, std::vector<std::vector<StepEdge>> edges);

  /// What `job` waits for: one range per step that it needs, in the order of `needs`.
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
    bool element_wise = false;
    std::vector<std::pair<uint32_t, uint32_t>> members;  // (parent's element, child's), sorted
  };

  std::vector<JobRange> jobs_;
  std::vector<std::vector<StepEdge>> edges_;
  std::vector<std::vector<Child>> children_;
  std::vector<uint32_t> step_of_;
};

}  // namespace dlflow
