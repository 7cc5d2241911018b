#include "engine/run/chain/submission.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "base/fault.h"
#include "engine/batch/limits.h"
#include "engine/decide/standing.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/run/again.h"
#include "engine/run/chain/login_jobs.h"
#include "engine/run/chain/observation.h"
#include "engine/run/chain/repair.h"
#include "engine/run/chain/round.h"
#include "engine/run/failing_nodes.h"
#include "engine/run/new_sources.h"
#include "engine/run/reuses.h"

// How a chain gets into the batch system, or back to where it should be.
//
// The first submission, the resumption after a kill, and the repair of a chain that broke are one
// procedure, which brings the batch system to where it has every job that can still run, each
// attempt once:
//
// 1. What is in doubt is looked up: jobs that are Submitting, by the names of their batches. Those
//    that the batch system has are adopted; of the others it is known now that nobody has them.
// 2. What has become of the rest is asked, and recorded: ends without a record, jobs that turned up
//    again, what is blocked by that.
// 3. What is to run again is planned again (again.h). Jobs that wait in the batch system for one
//    that will not succeed are kept there: they hold their place in the queue.
// 4. What belongs on the login node and waits for nothing more runs there (login_jobs.h).
// 5. Rounds: everything Planned is put into batches, parents before children, and submitted
//    (round.h). Then the kept ones are pointed to their new parents (repair.h). A kept job that the
//    batch system dropped meanwhile is Planned again, and comes in the next round; so does the
//    second half of an array that was larger than some limit allows.
//
// Each step is right when it is done twice, and none relies on what an earlier call got done: after
// a kill anywhere, the same call again does what is left.

namespace dlflow {
namespace {

bool is_new(const Standing& standing) { return standing.kind == Standing::Kind::ToSubmit; }

/// Leaves out all but the first `most` new tasks, so that no job waits for one that was left out.
/// Returns the number of jobs left out.
size_t leave_out_beyond(size_t most, const Plan& plan, std::vector<Standing>& standings) {
  size_t left_out = 0;
  std::optional<uint32_t> last;  // of those that stay
  for (uint32_t job = 0; job < standings.size(); ++job) {
    Standing& standing = standings[job];
    if (!is_new(standing)) continue;
    const bool has_place = last && share_a_task(plan, *last, job);
    if (has_place || most > 0) {
      if (!has_place) --most;
      last = job;
      continue;
    }
    standing.kind = Standing::Kind::LeftOut;
    ++left_out;
  }
  return left_out;
}

/// Leaves out the last jobs, which would exceed the limit on this user's jobs. Returns their
/// number.
size_t leave_out_beyond_limit(const ChainRun& run, std::vector<Standing>& standings) {
  const int limit = run.plan().profile.limits.jobs;
  const bool any = std::any_of(standings.begin(), standings.end(), is_new);
  if (limit == 0 || !any) return 0;
  const std::vector<BatchJob> queue = run.batch().queue();
  const auto there = std::count_if(queue.begin(), queue.end(),
                                   [](const BatchJob& job) { return !is_over(job.state); });
  return leave_out_beyond(size_t(std::max<ptrdiff_t>(0, limit - there)), run.plan(), standings);
}

/// If a limit that only the batch system knows refuses an array, half of it is tried, and so on.
void submit_rounds(ChainRun& run, ChainRepair& repair, BatchPlan& planned, ChainResult& result) {
  size_t most = run.jobs().size();  // of a round
  for (bool complete = false; !complete;) {
    std::vector<Standing> standing =
        standings(run.plan(), run.jobs(), run.ids(),
                  [&repair](uint32_t job) { return repair.contains(job); });
    result.held_back = leave_out_beyond_limit(run, standing);
    complete = leave_out_beyond(most, run.plan(), standing) == 0;
    try {
      SubmissionRound(run, batches_for(run.plan(), standing, run.batch(), planned),
                      result.excluded_nodes)
          .submit(result.submitted);
      complete = repair.repoint(result.repointed) && complete;
    } catch (const TooManyJobs& refused) {
      if (refused.jobs == 1) throw;
      most = refused.jobs / 2;
      complete = false;
    }
  }
}

WithdrawnAttempt attempt_of(const ChainRun& run, uint32_t job) {
  return {run.name(job), run.jobs()[job].attempt};
}

/// Finds the jobs that wait in the batch system for jobs that will never succeed.
void keep_waiting_jobs(ChainRun& run, const JobsAtWork& at_work, ChainRepair& repair) {
  std::vector<WithdrawnAttempt> wanted;
  for (const auto& [name, found] : at_work) {
    if (!has_not_begun(found.state)) continue;
    const uint32_t job = run.number_of(name);
    const InQueue kept = keep_waiting(run.plan(), run.jobs(), job, found.never_starts);
    if (kept != InQueue::Stays) repair.add(job);
    if (kept == InQueue::QueuedAgain) {
      run.record().decide(job, JobState::Submitting);
      run.record().decide(job, JobState::Queued, "", run.id(job));
    }
    wanted.push_back(attempt_of(run, job));
  }
  want_again(run.plan().directory, wanted);
}

/// Jobs to be rerun must not be queued; they would read old sources.
void take_sources_of_now(ChainRun& run, const ChainRepair& repair) {
  Store& store = run.services().store;
  const std::vector<Reuse> reuses = reuses_of_runs(store);
  take_new_sources(
      run.plan(), run.jobs(),
      {store,
       [&](uint32_t job) { return is_under_way(run.jobs()[job].state) || repair.contains(job); },
       [&](const std::filesystem::path& folder) {
         return other_user_of(reuses, run.plan().run, folder);
       }},
      run.record().planner(), [&run] { run.record().sync(); });
}

bool has_checkpoints(const Plan& plan, uint32_t job) {
  std::error_code none;
  return std::filesystem::exists(job_directory(plan, job) / "checkpoints", none);
}

/// Points queued children to the new jobs, too. Running children are named in `too_early`.
void follow_new_parents(ChainRun& run, const JobsAtWork& at_work, PlannedAgain again,
                        ChainRepair& repair, std::vector<std::string>& too_early) {
  if (again.jobs.empty()) return;
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {  // parents before children
    const auto found = at_work.find(run.name(job));
    if (found == at_work.end()) continue;
    const bool has_begun = !has_not_begun(found->second.state);
    const auto has_saved = [&] { return has_checkpoints(run.plan(), job); };
    const AfterParents decided =
        follow_parents(run.plan(), run.jobs(), job, again, has_begun, has_saved);
    if (decided == AfterParents::Repointed) {
      repair.add(job);
    } else if (decided == AfterParents::Replaced && repair.replace(job)) {
      again.jobs.insert(job);
    } else if (decided != AfterParents::Stays) {
      too_early.push_back(run.name(job));
    }
  }
}

/// A job that the batch system has kept is Queued again, in the same attempt: it may begin at any
/// time, since batch systems count a failed parent that they have forgotten as one that succeeded.
PlannedAgain plan_jobs_again(ChainRun& run, PlanAgain again, const ChainRepair& repair) {
  PlannedAgain planned;
  if (again.new_sources) again.anew = made_anew(run.plan(), run.jobs(), run.services().store);
  keep_used_results(run.plan(), run.jobs(), again, run.services().store);
  prepare_again(run.plan(), run.jobs(), again, run.services().clock.now(),
                [&run](const Plan& plan) { check_limits(plan, run.batch(), std::nullopt); });
  if (again.new_sources) take_sources_of_now(run, repair);
  plan_again(run.plan(), run.jobs(), again,
             [&](uint32_t job, int tries, const std::string& reason) {
               const JobState before = run.jobs()[job].state;
               if (repair.contains(job) && before == JobState::Blocked) {
                 run.record().decide(job, JobState::Queued, reason, run.id(job));
               } else {
                 const bool was_skipped = before == JobState::Skipped && run.ended_unrecorded(job);
                 if (was_skipped || before == JobState::Cached) planned.noted.insert(job);
                 planned.jobs.insert(job);
                 run.record().plan_again(job, tries, reason);
               }
             });
  return planned;
}

/// Each attempt that gets a successor is withdrawn, and its job cancelled, however it ended: batch
/// systems report ends of live jobs, and an ended job can be requeued. A task that others share is
/// not cancelled; there the attempt just gets no turn. An attempt with an end of its own on record
/// does not begin again.
void withdraw_replaced(ChainRun& run) {
  std::vector<WithdrawnAttempt> attempts;
  std::vector<JobIdentity> their_jobs;
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    const bool was_submitted = run.jobs()[job].state == JobState::Planned && !run.id(job).empty();
    if (!was_submitted || run.has_own_end(job)) continue;
    attempts.push_back(attempt_of(run, job));
    if (!run.shares_task(job)) their_jobs.push_back(run.identity(job));
  }
  withdraw(run.plan().directory, attempts);
  crash_point("withdrawn");
  run.batch().cancel(their_jobs);
}

void reuse_known_results(ChainRun& run) {
  forget_removed(run.plan(), run.jobs());
  for (const auto& [job, known] : run.plan().reused) {
    if (run.jobs()[job].state == JobState::Planned) run.record().reuse(job);
  }
}

}  // namespace

ChainResult submit_missing_jobs(ChainRun& run, const PlanAgain& again, const FoundLists& lists,
                                BatchPlan planned) {
  ChainResult result;
  // A job on its node submits only new jobs. It does not ask about the end of others, whose records
  // may show late there, and runs no jobs of the login node.
  if (!again.none) recover_login_jobs(run);
  result.adopted = adopt_doubtful(run);
  run.note_looked_up();
  const JobsAtWork at_work = again.none ? JobsAtWork() : look_at_open_jobs(run, Doubt::GiveUp);
  run.block_hopeless();
  ChainRepair repair(run);
  if (!again.none) keep_waiting_jobs(run, at_work, repair);
  PlannedAgain anew = again.none ? PlannedAgain{} : plan_jobs_again(run, again, repair);
  follow_new_parents(run, at_work, std::move(anew), repair, result.too_early);
  for (uint32_t job = 0; job < run.jobs().size(); ++job) {
    result.kept += satisfies_dependents(run.jobs()[job].state);
  }
  repair.drop_blocked();
  block_refused(run, lists);
  reuse_listed(run);
  reuse_known_results(run);
  result.excluded_nodes =
      nodes_to_exclude(run.services().store, cluster_of(run.plan().directory).value_or(""),
                       run.plan().profile.exclude_nodes);
  withdraw_replaced(run);
  const std::string directory = run.plan().directory.string();
  run.services().store.set_run_state(directory, RunState::Running, run.services().clock.now());
  if (!again.none) result.interrupted = run_login_jobs(run);
  try {
    if (!result.interrupted) submit_rounds(run, repair, planned, result);
  } catch (const std::exception&) {
    run.save();  // some were submitted
    throw;
  }
  run.save();
  run.services().store.settle_run_state(directory);
  result.later_here = login_jobs_left(run);
  result.failed_here = login_jobs_failed(run);
  return result;
}

}  // namespace dlflow
