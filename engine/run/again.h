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
  bool failed = false;                  ///< what failed or timed out, too; else only what was
                                        ///< cancelled or lost, or has a try left
  std::vector<std::string> names = {};  ///< of steps or jobs; empty: all
  Json resources = Json::object();      ///< what they ask for now, see resource_settings()
  bool from_scratch = false;            ///< they do not go on from their checkpoints
  bool new_sources = false;             ///< the run takes what its steps read as it is now
  std::vector<uint32_t> anew = {};      ///< with them: see made_anew()
  bool none = false;                    ///< nothing at all: only what nobody had yet is started
};

/// Whether one of `names`, of steps or jobs, means this job; no names mean all.
bool is_meant(const Plan& plan, uint32_t job, const std::vector<std::string>& names);

/// Throws Error{NotFound} with a suggestion for a name that means no job.
void check_names_exist(const Plan& plan, const std::vector<std::string>& names);

/// What comes before plan_again, for the jobs that get another attempt for their own sake; what
/// only waited for them stays as it is. They ask for `what.resources`, which is recorded in the
/// run; if they begin from scratch, their checkpoints go to the folder of the attempt that they
/// had. \param check  throws if the plan cannot run like that. Nothing has changed on disk then.
/// Throws Error as resubmit_run, change_resources and `check`.
void prepare_again(Plan& plan, const Jobs& jobs, const PlanAgain& what, Time now,
                   const std::function<void(const Plan&)>& check);

/// Of plan_again(): refuses to make anew, for the sake of what it was made from, what another run
/// has reused. Throws Error{InvalidInput}, before anything has changed.
void keep_used_results(const Plan& plan, const Jobs& jobs, const PlanAgain& what, Store& store);

/// Of plan_listed_again(): the same. Throws Error{InvalidInput}, before anything has changed.
void keep_listed_results(const Plan& plan, const Jobs& jobs, uint32_t source, Store& store);

/// Says that the result of `job` stays, since the run `user` has reused it.
[[noreturn]] void throw_used(const Plan& plan, const std::string& job, const std::string& user);

/// The next attempt of the job finds no checkpoint; those that there are stay on disk, in the
/// folder of attempt `attempt`.
void set_checkpoints_aside(const Plan& plan, uint32_t job, int attempt);

/// What the job has published is no longer found below its name.
void withdraw_result(const Plan& plan, uint32_t job);

/// Somebody has a job in this state, or may have it.
bool is_under_way(JobState state);

/// Moves a job to Planned and records that. \param tries  that count as used up.
using PlanJob = std::function<void(uint32_t job, int tries, const std::string& reason)>;

/// Gives jobs that did not succeed another attempt, and unblocks what waited for them. What a job
/// that is to run needs, and what is gone (somebody removed the folder of the run that it came
/// from), runs again, too: such results are no longer in `plan.reused`. A job whose parents run
/// again begins from scratch, and what it has published counts no more. Throws as resubmit_run.
void plan_again(Plan& plan, const Jobs& jobs, const PlanAgain& what, const PlanJob& plan_job);

/// What was to be reused and has been removed since the run was planned is looked for anew, and so
/// is all that was to be reused after it. Once others see that the run reuses it, it stays: see
/// engine/cli/rm.cpp.
void forget_removed(Plan& plan, const Jobs& jobs);

/// All that waits for `job`, directly or not.
std::vector<uint32_t> descendants_of(const Plan& plan, uint32_t job);

/// The step of `source` has left another list than the one that the run is laid out with: what was
/// made with the earlier one is made again. Of jobs that nobody has.
void plan_listed_again(Plan& plan, const Jobs& jobs, uint32_t source, const PlanJob& plan_job);

}  // namespace dlflow
