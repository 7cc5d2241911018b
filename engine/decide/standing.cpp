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
