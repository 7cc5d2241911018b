#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/jobs.h"

/// Which jobs of a run get another attempt.
namespace dlflow {

/// Ended without success, so that what needs it cannot run.
bool is_broken(JobState state);

struct PlanAgain {
  bool failed = false;                  ///< what failed or timed out, too; else only what was
                                        ///< cancelled or lost, or has a try left
  std::vector<std::string> names = {};  ///< of steps or jobs; empty: all
};

/// Whether one of `names`, of steps or jobs, means this job; no names mean all.
bool is_meant(const Plan& plan, uint32_t job, const std::vector<std::string>& names);

/// Throws Error{NotFound} with a suggestion for a name that means no job.
void check_names_exist(const Plan& plan, const std::vector<std::string>& names);

/// Moves a job and records that.
using Move = std::function<void(uint32_t job, JobState state, const std::string& reason)>;

/// Gives jobs that did not succeed another attempt, and unblocks what waited for them.
/// Throws as resubmit_run.
void plan_again(const Plan& plan, Jobs& jobs, const PlanAgain& what, const Move& move);

}  // namespace dlflow
