#include "engine/run/again.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/decide/decide.h"
#include "engine/decide/standing.h"
#include "engine/plan/changes.h"
#include "engine/plan/job.h"
#include "engine/plan/published.h"
#include "engine/plan/run_directory.h"
#include "engine/report/again_text.h"
#include "engine/run/reuses.h"
#include "engine/supervisor/kept_checkpoints.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

bool is_called(const Plan& plan, uint32_t job, const std::string& name) {
  return plan.jobs[job].name.is_meant_by(name);
}

[[noreturn]] void throw_unknown(const Plan& plan, const std::string& name) {
  std::vector<std::string> candidates;
  for (const Step& step : plan.workflow.steps) candidates.push_back(step.name);
  throw Error(Errc::NotFound, "run " + plan.run + " has no step or job '" + name + "'" +
                                  did_you_mean_or_list(name, candidates));
}

/// Checks that each name means a job that can be tried again, or whose sources changed.
void check_names(const Plan& plan, const Jobs& jobs, const PlanAgain& what) {
  check_names_exist(plan, what.names);
  for (const std::string& name : what.names) {
    bool broken = false;
    for (uint32_t job = 0; job < jobs.size(); ++job) {
      if (!is_called(plan, job, name)) continue;
      const JobState state = jobs[job].state;
      broken |= is_broken(state) && state != JobState::Blocked;
      broken |= std::ranges::find(what.anew, job) != what.anew.end();
    }
    if (!broken) {
      throw Error(Errc::InvalidInput, "no job of '" + name +
                                          "' failed, so there is nothing to run again; `dlflow run "
                                          "WORKFLOW --force STEP` repeats successful steps");
    }
  }
}

bool ended_badly(JobState state) {
  return state == JobState::Failed || state == JobState::TimedOut;
}

/// Failures that are allowed, but that leave another job without any input.
std::vector<bool> failures_that_block(const Plan& plan, const Jobs& jobs) {
  std::vector<bool> found(jobs.size(), false);
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    if (jobs[job].state != JobState::Blocked) continue;
    const Inputs inputs = jobs.inputs(job);
    if (inputs.kind != Inputs::Kind::Block) continue;
    plan.graph.each_parent(job, [&](uint32_t parent) {
      if (plan.workflow.steps[plan.jobs[parent].step].name == inputs.step) found[parent] = true;
    });
  }
  return found;
}

/// Whether `what` gives the job another attempt for its own sake, not only because it was blocked.
/// \param blocks  see failures_that_block(); other allowed failures are tried again only by name.
bool is_chosen(const Plan& plan, const Jobs& jobs, uint32_t job, const PlanAgain& what,
               bool blocks) {
  const JobProgress& progress = jobs[job];
  if (!is_broken(progress.state) || progress.state == JobState::Blocked) return false;
  if (!is_meant(plan, job, what.names)) return false;
  const bool is_fine = jobs.is_allowed_failure(job) && !blocks;
  if (is_fine && what.names.empty() && !has_a_try_left(plan, jobs, job)) return false;
  return what.failed || !ended_badly(progress.state) || has_a_try_left(plan, jobs, job);
}

fs::path result_directory(const Plan& plan, uint32_t job) {
  const auto reused = plan.reused.find(job);
  return reused == plan.reused.end() ? job_directory(plan, job) : reused->second.directory;
}

void run_anew(Plan& plan, uint32_t job) {
  plan.reused.erase(job);
  plan.jobs[job].action = Action::Run;
}

/// The job ended, and was neither blocked nor stopped.
bool was_settled(JobState state) {
  return satisfies_dependents(state) || state == JobState::Skipped || is_failure(state);
}

/// The job's parents may leave other results this time.
void look_anew(Plan& plan, uint32_t job) {
  if (plan.reused.erase(job) > 0) plan.jobs[job].action = Action::DecideLater;
}

bool has_parent_among(const Plan& plan, uint32_t job, const std::vector<bool>& jobs) {
  bool found = false;
  plan.graph.each_parent(job, [&](uint32_t parent) { found |= jobs[parent]; });
  return found;
}

/// The parents' results are made anew: the job does not continue from a checkpoint made with the
/// old ones, and its own result no longer counts. The job must not be queued.
void forget_old_parents(const Plan& plan, uint32_t job, const JobProgress& progress) {
  if (progress.attempt == 0) return;
  set_checkpoints_aside(plan, job, progress.attempt);
  withdraw_result(plan, job);
}

/// Goes from the last job to the first, so that the parents of a lost result are looked at, too.
void plan_lost_results(Plan& plan, const Jobs& jobs, const PlanJob& plan_job) {
  std::vector<bool> looked_at(jobs.size());
  const auto look_at = [&](uint32_t parent) {
    if (looked_at[parent] || !satisfies_dependents(jobs[parent].state)) return;
    looked_at[parent] = true;
    if (has_result(result_directory(plan, parent))) return;
    run_anew(plan, parent);
    plan_job(parent, 0, "its outputs are gone but still needed");
  };
  for (uint32_t job = jobs.size(); job-- > 0;) {
    if (jobs[job].state != JobState::Planned) continue;
    if (const auto reused = plan.reused.find(job); reused != plan.reused.end()) {
      if (has_result(reused->second.directory)) continue;  // it needs nobody
      run_anew(plan, job);
    }
    plan.graph.each_parent(job, look_at);
  }
}

/// Refuses to make the results of these jobs anew if another run uses one of them.
void refuse_if_used(const Plan& plan, const Jobs& jobs, const std::vector<uint32_t>& anew,
                    Store& store) {
  std::map<std::string, JobName> results;  // folder -> job
  for (const uint32_t job : anew) {
    if (!satisfies_dependents(jobs[job].state) || jobs[job].attempt == 0) continue;
    results.emplace(job_directory(plan, job).string(), plan.jobs[job].name);
  }
  if (results.empty()) return;
  std::error_code none;
  for (const Reuse& reuse : reuses_of_runs(store)) {
    const auto used = results.find(reuse.from);
    const bool is_own = reuse.run_directory == plan.directory;
    if (used == results.end() || is_own || !fs::exists(reuse.run_directory, none)) continue;
    throw_used(plan, used->second, reuse.run);
  }
}

}  // namespace

void set_checkpoints_aside(const Plan& plan, uint32_t job, int attempt) {
  const fs::path folder = job_directory(plan, job);
  const fs::path aside = attempt_directory(folder, attempt) / "checkpoints";
  forget_kept_checkpoints(folder);
  if (!fs::exists(folder / "checkpoints")) return;
  make_directories(aside.parent_path());
  std::error_code problem;
  fs::rename(folder / "checkpoints", aside, problem);
  if (problem) {
    throw Error(Errc::InvalidInput, "cannot move the checkpoints of " + plan.jobs[job].name +
                                        " to " + aside.string() + ": " + problem.message());
  }
}

void withdraw_result(const Plan& plan, uint32_t job) {
  const fs::path link = job_directory(plan, job) / "outputs";
  if (::unlink(link.c_str()) != 0 && errno != ENOENT) {
    throw_errno("cannot remove " + link.string(), errno);
  }
}

bool is_under_way(JobState state) {
  return state == JobState::Submitting || state == JobState::Queued || state == JobState::Running;
}

bool is_meant(const Plan& plan, uint32_t job, const std::vector<std::string>& names) {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return is_called(plan, job, name);
         });
}

void check_names_exist(const Plan& plan, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bool known = false;
    for (uint32_t job = 0; job < plan.jobs.size() && !known; ++job) {
      known = is_called(plan, job, name);
    }
    if (!known) throw_unknown(plan, name);
  }
}

void prepare_again(Plan& plan, const Jobs& jobs, const PlanAgain& what, Time now,
                   const std::function<void(const Plan&)>& check) {
  check_names(plan, jobs, what);
  const std::vector<bool> blocks = failures_that_block(plan, jobs);
  std::vector<uint32_t> chosen;
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    if (is_chosen(plan, jobs, job, what, blocks[job])) chosen.push_back(job);
  }
  if (!what.resources.empty()) {
    if (chosen.empty()) {
      throw Error(Errc::InvalidInput, "no job of " + plan.run +
                                          " failed, so none can be submitted with other resources; "
                                          "waiting and running jobs keep theirs");
    }
    change_resources(plan, chosen, what.resources);
    check(plan);
    record_change(plan, chosen, what.resources, now);
  }
  if (!what.from_scratch) return;
  for (const uint32_t job : chosen) set_checkpoints_aside(plan, job, jobs[job].attempt);
}

void forget_removed(Plan& plan, const Jobs& jobs) {
  std::error_code none;
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    const auto reused = plan.reused.find(job);
    if (reused == plan.reused.end() || jobs[job].state != JobState::Planned) continue;
    if (fs::exists(reused->second.directory / "outputs", none)) continue;
    look_anew(plan, job);
    for (const uint32_t later : descendants_of(plan, job)) {
      if (jobs[later].state == JobState::Planned) look_anew(plan, later);
    }
  }
}

std::vector<uint32_t> with_descendants(const Plan& plan, const std::vector<uint32_t>& jobs) {
  std::set<uint32_t> found(jobs.begin(), jobs.end());
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    if (!found.contains(job)) continue;
    plan.graph.each_child(job, [&found](uint32_t child) { found.insert(child); });
  }
  return {found.begin(), found.end()};
}

std::vector<uint32_t> descendants_of(const Plan& plan, uint32_t job) {
  std::vector<uint32_t> found = with_descendants(plan, {job});
  found.erase(found.begin());  // the job itself
  return found;
}

void plan_listed_again(Plan& plan, const Jobs& jobs, uint32_t source, const PlanJob& plan_job) {
  const std::string reason = plan.jobs[source].name + " has written a new list";
  for (const uint32_t job : descendants_of(plan, source)) {
    const JobState state = jobs[job].state;
    if (is_under_way(state) || state == JobState::Planned) continue;
    forget_old_parents(plan, job, jobs[job]);
    look_anew(plan, job);
    plan_job(job, 0, reason);
  }
}

void keep_used_results(const Plan& plan, const Jobs& jobs, const PlanAgain& what, Store& store) {
  const std::vector<bool> blocks = failures_that_block(plan, jobs);
  std::vector<bool> again(jobs.size(), false);
  std::vector<uint32_t> anew;
  for (uint32_t job = 0; job < jobs.size(); ++job) {  // parents before children
    const bool for_parents = has_parent_among(plan, job, again);
    again[job] = for_parents || is_chosen(plan, jobs, job, what, blocks[job]);
    if (for_parents) anew.push_back(job);
  }
  refuse_if_used(plan, jobs, anew, store);
}

void keep_listed_results(const Plan& plan, const Jobs& jobs, uint32_t source, Store& store) {
  refuse_if_used(plan, jobs, descendants_of(plan, source), store);
}

void throw_used(const Plan& plan, const JobName& job, const std::string& user) {
  throw Error(Errc::InvalidInput,
              "the result of " + job + " is used by " + user + ", so it cannot change; `" +
                  dlflow::run_anew(plan) +
                  "` starts a new run, which reuses every result that the change does not affect");
}

void plan_again(Plan& plan, const Jobs& jobs, const PlanAgain& what, const PlanJob& plan_job) {
  check_names(plan, jobs, what);
  const std::vector<bool> blocks = failures_that_block(plan, jobs);
  std::vector<bool> again(jobs.size(), false);
  for (uint32_t job = 0; job < jobs.size(); ++job) {  // parents before children
    const JobProgress& progress = jobs[job];
    const bool parents_anew = has_parent_among(plan, job, again);
    if (parents_anew && !is_under_way(progress.state)) forget_old_parents(plan, job, progress);
    if (was_settled(progress.state) && parents_anew) {
      // It ran without that parent, which was allowed to fail, or it always runs.
      again[job] = true;
      look_anew(plan, job);
      plan_job(job, 0, "a job that it needs runs again");
      continue;
    }
    const bool chosen = is_chosen(plan, jobs, job, what, blocks[job]);
    if (!chosen && !is_freed(jobs, job)) continue;
    again[job] = true;
    if (ended_badly(progress.state) && !what.failed) {
      plan_job(job, progress.tries, "tried again");
      continue;
    }
    plan_job(job, 0, chosen && what.from_scratch ? "run again from scratch" : "run again");
  }
  plan_lost_results(plan, jobs, plan_job);
}

}  // namespace dlflow
