#include "engine/decide/standing.h"

#include "engine/plan/extension.h"
#include "engine/plan/places.h"

namespace dlflow {
namespace {

/// The standing of a job without regard to its parents.
Standing::Kind standing_alone(const Plan& plan, const Jobs& states, uint32_t job, bool is_kept) {
  using enum Standing::Kind;
  const JobState state = states[job].state;
  if (satisfies_dependents(state) || state == JobState::Skipped) return Done;
  if (is_open(plan, job) || is_on_login_node(plan, plan.jobs[job])) return LeftOut;
  if (state == JobState::Queued || state == JobState::Running || is_kept) return Waiting;
  const bool is_new = state == JobState::Planned || state == JobState::Submitting;
  return is_new && !waits_for_list(plan, states, job) ? ToSubmit : LeftOut;
}

/// Whether the job may wait for the task of a parent's earlier attempt, which ends well for the
/// others that share it: an earlier call was killed before it pointed the job to the new one.
bool may_wait_for_earlier(const Plan& plan, const Jobs& states, uint32_t job) {
  bool may = false;
  const Step& child = step_of(plan, job);
  plan.graph.each_parent(job, [&](uint32_t parent) {
    const JobProgress& progress = states[parent];
    const Step& from = step_of(plan, parent);
    const bool is_new = progress.state == JobState::Planned || progress.attempt > 1;
    const bool is_packed = child.matrix.pack > 1 || from.matrix.pack > 1;
    may |= is_new && is_packed && !lets_run(child, from, progress.state);
  });
  return may;
}

}  // namespace

std::vector<Standing> standings(const Plan& plan, const Jobs& states,
                                const std::vector<std::string>& ids,
                                const std::function<bool(uint32_t job)>& is_kept) {
  std::vector<Standing> result(states.size());
  for (uint32_t job = 0; job < result.size(); ++job) {  // parents before children
    Standing& mine = result[job];
    mine.kind = standing_alone(plan, states, job, is_kept(job));
    if (mine.kind == Standing::Kind::Done) continue;
    mine.id = ids[job];
    if (mine.kind == Standing::Kind::LeftOut) continue;
    plan.graph.each_parent(job, [&](uint32_t parent) {
      const bool is_over =
          lets_run(step_of(plan, job), step_of(plan, parent), states[parent].state);
      if (result[parent].kind == Standing::Kind::LeftOut && !is_over)
        mine.kind = Standing::Kind::LeftOut;
    });
  }
  return result;
}

InQueue keep_waiting(const Plan& plan, const Jobs& states, uint32_t job, bool never_starts) {
  const JobState state = states[job].state;
  if (state == JobState::Planned) return InQueue::QueuedAgain;
  const bool is_stuck = state == JobState::Blocked || never_starts;
  return is_stuck || may_wait_for_earlier(plan, states, job) ? InQueue::Repointed : InQueue::Stays;
}

AfterParents follow_parents(const Plan& plan, const Jobs& states, uint32_t job,
                            const PlannedAgain& again, bool has_begun,
                            const std::function<bool()>& has_saved) {
  const JobState state = states[job].state;
  if (state != JobState::Queued && state != JobState::Running) return AfterParents::Stays;
  bool any = false;
  bool noted = false;
  plan.graph.each_parent(job, [&](uint32_t parent) {
    any |= again.jobs.contains(parent);
    noted |= again.noted.contains(parent);
  });
  if (!any) return AfterParents::Stays;
  if (state == JobState::Running || has_begun) return AfterParents::TooEarly;
  return noted || has_saved() ? AfterParents::Replaced : AfterParents::Repointed;
}

bool is_freed(const Jobs& states, uint32_t job) {
  return states[job].state == JobState::Blocked && !states.obstacle(job);
}

bool waits_for_list(const Plan& plan, const Jobs& states, uint32_t job) {
  const Matrix& matrix = step_of(plan, job).matrix;
  if (!takes_list(matrix)) return false;
  bool waits = false;
  plan.graph.each_parent(job, [&](uint32_t parent) {
    const bool is_source = takes_list_of(matrix, step_of(plan, parent).name);
    waits |= is_source && !satisfies_dependents(states[parent].state);
  });
  return waits;
}

}  // namespace dlflow
