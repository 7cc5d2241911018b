#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/batch/batch_system.h"
#include "engine/decide/standing.h"
#include "engine/plan/plan.h"

/// Which jobs of a plan are submitted together, and the dependencies of each submission. Pure.
namespace dlflow {

/// One thing that a batch waits for.
struct PlannedDependency {
  using Kind = Dependency::Kind;
  Kind kind = Kind::Success;
  std::string id = {};                ///< of a job or array that the batch system had before
  uint32_t batch = 0;                 ///< else the place of an earlier batch in the list
  std::optional<uint32_t> task = {};  ///< of that batch; nothing: all of it
  auto operator<=>(const PlannedDependency&) const = default;
};

/// One future submission: a plain job, or a job array of elements of one step.
struct PlannedBatch {
  uint32_t step = 0;
  bool is_array = false;
  std::vector<uint32_t> jobs = {};  ///< numbers in the plan, ascending
  /// For an array, by job: number of the element, divided by the step's `pack`, modulo the array
  /// size. Jobs with the same task run in it one after the other.
  std::vector<uint32_t> tasks = {};
  std::vector<PlannedDependency> waits_for = {};  ///< each once
  int max_parallel = 0;             ///< of its tasks that run at a time; 0: any number
  bool leaves_if_hopeless = false;  ///< see Batch
};

/// The submissions of a plan's jobs, and the standing of each job for which they were planned.
struct BatchPlan {
  std::vector<Standing> standing = {};
  std::vector<PlannedBatch> batches = {};
};

/// The tasks of an array, each once; none of a plain job.
std::vector<uint32_t> distinct_tasks(const PlannedBatch& batch);
/// The number of jobs for the batch system: an array's tasks count.
size_t num_tasks(const PlannedBatch& batch);
/// The number of jobs that share the largest of its tasks.
size_t largest_task(const PlannedBatch& batch);

/// Whether both jobs run in the same task if they are submitted together: adjacent elements of a
/// step with `pack` that ask for the same.
bool share_a_task(const Plan& plan, uint32_t a, uint32_t b);

/// Parents before children. The tasks of an array have the same resources and dependencies; a step
/// has one array if possible, and more if it exceeds the batch system's limit, if its elements
/// differ in these, or if `rules` do not allow so many gaps between its tasks. `standing` is by
/// job.
///
/// A task that several elements share waits for the parents of all of them. A parent that only some
/// of them need may end in any way: it must not keep the others from running.
///
/// A step's `max_parallel` holds over all its arrays, earlier ones included: they share its places,
/// and if there are more arrays than places, or earlier ones, one begins when another has ended.
std::vector<PlannedBatch> plan_batches(const Plan& plan, const std::vector<Standing>& standing,
                                       const ArrayRules& rules);

/// The dependencies for the batch system, by the ids of the batches so far.
std::vector<Dependency> dependencies(const std::vector<PlannedDependency>& planned,
                                     const std::vector<std::string>& ids);

}  // namespace dlflow
