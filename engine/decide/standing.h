#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"

/// The jobs of a chain that a batch system gets. It holds each until its parents have ended, so
/// they are submitted as a whole.
namespace dlflow {

/// A job's place in a chain that is being submitted.
struct Standing {
  enum class Kind {
    Done,      ///< no job has to wait for it
    ToSubmit,  ///< now
    Waiting,   ///< the batch system has it already, as `id`
    LeftOut,   ///< neither it nor its dependents can run
  };
  Kind kind = Kind::Done;
  std::string id = {};  ///< also of a job that is left out, if the batch system has it
  bool operator==(const Standing&) const = default;
};

/// Returns the standing of each job. \param ids  in the batch system, by job; empty: none. \param
/// is_kept  whether the batch system has a job that is not Queued on record
std::vector<Standing> standings(const Plan& plan, const Jobs& states,
                                const std::vector<std::string>& ids,
                                const std::function<bool(uint32_t job)>& is_kept);

/// The treatment of a job that waits in the batch system when the rest is submitted.
enum class InQueue {
  Stays,
  Repointed,  ///< to the present jobs of its parents: it may wait for jobs that will never succeed
  QueuedAgain,  ///< the same, and on record: an earlier `cancel` could not take it from the queue
};
InQueue keep_waiting(const Plan& plan, const Jobs& states, uint32_t job, bool never_starts);

/// Jobs that are planned again.
struct PlannedAgain {
  std::set<uint32_t> jobs;
  std::set<uint32_t> noted;  ///< of these, jobs whose ends stand in the specifications of children
};

/// The treatment of a child that the batch system has when its parents are planned again.
enum class AfterParents {
  Stays,
  Repointed,  ///< to the new jobs of its parents
  Replaced,   ///< by a new job, since its specification or its checkpoints come from old parents
  TooEarly,   ///< it runs already, with the old results
};
AfterParents follow_parents(const Plan& plan, const Jobs& states, uint32_t job,
                            const PlannedAgain& again, bool has_begun,
                            const std::function<bool()>& has_saved);

/// Whether the job is blocked, and nothing is in its way any more: a parent was lost for a while.
bool is_freed(const Jobs& states, uint32_t job);

/// Whether the job is an element of a list that may change before it could run, since the job that
/// leaves the list has yet to end.
bool waits_for_list(const Plan& plan, const Jobs& states, uint32_t job);

}  // namespace dlflow
