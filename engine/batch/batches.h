#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/batch/batch_system.h"
#include "engine/decide/standing.h"
#include "engine/plan/plan.h"

/// Which jobs of a plan travel together, one submission each, and what each waits for. Pure.
namespace dlflow {

/// One thing that a batch waits for.
struct PlannedDependency {
  enum class Kind {
    All,        ///< all of an earlier batch
    SameTask,   ///< task i for task i of it
    OneTask,    ///< for `task` of it
    EndedTask,  ///< for the end of `task` of it, whatever that is
    Id,         ///< for a job that the batch system had before
    Ended,      ///< for the end of all of an earlier batch, whatever it is
    EndedId,    ///< the same of a job or array that was there before
  };
  Kind kind = Kind::All;
  uint32_t batch = 0;  ///< its place in the list
  uint32_t task = 0;
  std::string id = {};
  auto operator<=>(const PlannedDependency&) const = default;
};

/// One submission to come: a plain job, or a job array of elements of one step.
struct PlannedBatch {
  uint32_t step = 0;
  bool is_array = false;
  std::vector<uint32_t> jobs = {};  ///< numbers in the plan, ascending
  /// Of the array, by job: number of the element, divided by the step's `pack`, modulo the array
  /// size. Jobs with the same task are run by it one after the other.
  std::vector<uint32_t> tasks = {};
  std::vector<PlannedDependency> waits_for = {};  ///< each once
  int max_parallel = 0;             ///< of its tasks that run at a time; 0: any number
  bool leaves_if_hopeless = false;  ///< see Batch
};

/// The tasks of an array, each once; none of a plain job.
std::vector<uint32_t> distinct_tasks(const PlannedBatch& batch);
/// How many jobs the batch system is given: of an array its tasks.
size_t num_tasks(const PlannedBatch& batch);
/// How many jobs share the largest of its tasks.
size_t largest_task(const PlannedBatch& batch);

/// Whether both jobs are run by the same task, if they are submitted together: elements of a step
/// with `pack`, beside each other, that ask for the same.
bool share_a_task(const Plan& plan, uint32_t a, uint32_t b);

/// Parents before children. The tasks of an array have the same resources and wait for the same; a
/// step has one array where it can be, more if it is larger than the batch system takes, if its
/// elements differ in that, or if `rules` do not allow so many gaps between its tasks.
/// `standing` is by job.
///
/// A task that several elements share waits for what any of them waits for. What only some of them
/// need may end as it likes: it must not keep the others from running.
///
/// A step's `max_parallel` holds over all its arrays, those that are submitted already among them:
/// they share its places, and where there are more arrays than places, or some from before, one
/// begins when another has ended.
std::vector<PlannedBatch> plan_batches(const Plan& plan, const std::vector<Standing>& standing,
                                       const ArrayRules& rules);

/// For the batch system: `planned` by the ids of the batches so far.
std::vector<Dependency> dependencies(const std::vector<PlannedDependency>& planned,
                                     const std::vector<std::string>& ids);

}  // namespace dlflow
