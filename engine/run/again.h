#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"
#include "engine/store/store.h"

/// Which jobs of a run get another attempt.
namespace dlflow {

struct PlanAgain {
  bool failed = false;                  ///< also jobs that failed or timed out; else only those
                                        ///< that were cancelled or lost, or have a try left
  std::vector<std::string> names = {};  ///< of steps or jobs; empty: all
  Json resources = Json::object();      ///< that they ask for now, see resource_settings()
  bool from_scratch = false;            ///< they do not go on from their checkpoints
  bool new_sources = false;             ///< the run takes its sources as they are now
  std::vector<uint32_t> anew = {};      ///< jobs with new sources: see made_anew()
  bool none = false;  ///< nothing is tried again: only jobs that were never handed over are started
};

/// Whether one of `names`, of steps or jobs, means this job; no names mean all.
bool is_meant(const Plan& plan, uint32_t job, const std::vector<std::string>& names);

/// Throws Error{NotFound} with a suggestion for a name that means no job.
void check_names_exist(const Plan& plan, const std::vector<std::string>& names);

/// Prepares plan_again() for the jobs that get another attempt for their own sake; jobs that only
/// waited for them stay as they are. The chosen jobs ask for `what.resources`, which is recorded in
/// the run; if they begin from scratch, their checkpoints go to the folder of their last attempt.
/// \param check  throws if the plan cannot run like that. Nothing has changed on disk then. Throws
/// Error like resubmit_run, change_resources and `check`.
void prepare_again(Plan& plan, const Jobs& jobs, const PlanAgain& what, Time now,
                   const std::function<void(const Plan&)>& check);

/// Refuses, before plan_again(), to make a result anew that another run has reused. Throws
/// Error{InvalidInput} before anything has changed.
void keep_used_results(const Plan& plan, const Jobs& jobs, const PlanAgain& what, Store& store);

/// The same before plan_listed_again(). Throws Error{InvalidInput} before anything has changed.
void keep_listed_results(const Plan& plan, const Jobs& jobs, uint32_t source, Store& store);

/// Reports that the result of `job` stays, since the run `user` has reused it.
[[noreturn]] void throw_used(const Plan& plan, const JobName& job, const std::string& user);

/// Moves the job's checkpoints to the folder of attempt `attempt`, so that the next attempt finds
/// none.
void set_checkpoints_aside(const Plan& plan, uint32_t job, int attempt);

/// Removes the link to the job's published outputs.
void withdraw_result(const Plan& plan, uint32_t job);

/// Whether a back end has a job in this state, or may have it.
bool is_under_way(JobState state);

/// Moves a job to Planned and records that. \param tries  the number of tries that count as used.
using PlanJob = std::function<void(uint32_t job, int tries, const std::string& reason)>;

/// Gives jobs that did not succeed another attempt, and unblocks their dependents. If a job that
/// will run needs a result that is gone (someone removed the folder of the run it came from), the
/// job that made it runs again, too: such results are no longer in `plan.reused`. A job whose
/// parents run again begins from scratch, and its published result no longer counts. Throws like
/// resubmit_run.
void plan_again(Plan& plan, const Jobs& jobs, const PlanAgain& what, const PlanJob& plan_job);

/// Looks anew for results that were to be reused and have been removed since the run was planned,
/// and for all reused results that depend on them. Once others see that the run reuses a result, it
/// stays: see engine/cli/rm.cpp.
void forget_removed(Plan& plan, const Jobs& jobs);

/// Adds all their dependents, direct or not; parents before children.
std::vector<uint32_t> with_descendants(const Plan& plan, const std::vector<uint32_t>& jobs);
/// All dependents of `job`, direct or not.
std::vector<uint32_t> descendants_of(const Plan& plan, uint32_t job);

/// The step of `source` has left another list than the one that the run is laid out with: jobs made
/// with the earlier list are planned again. They must not be queued.
void plan_listed_again(Plan& plan, const Jobs& jobs, uint32_t source, const PlanJob& plan_job);

}  // namespace dlflow
