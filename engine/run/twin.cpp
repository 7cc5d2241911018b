#include "engine/run/twin.h"

#include <set>
#include <utility>
#include <vector>

namespace dlflow {
namespace {

/// Whether its result would be reused if it were there.
bool is_reusable(const Plan& plan, const PlannedJob& job) {
  const bool runs_anyway = job.cause == Cause::Forced || job.cause == Cause::ActsOutside ||
                           job.cause == Cause::Always || plan.steps[job.step].sees_run;
  return job.action != Action::Reuse && !runs_anyway;
}

/// How many of `shared`, the jobs that a run makes from the same beginnings, it makes from the same
/// parents. Parents come before their children.
size_t count_same(const Plan& plan, const std::set<uint32_t>& shared) {
  std::vector<bool> same(plan.jobs.size());
  size_t count = 0;
  for (const uint32_t job : shared) {
    if (!is_reusable(plan, plan.jobs[job])) continue;
    bool all = true;
    plan.graph.each_parent(job, [&](uint32_t parent) {
      all = all && (same[parent] || plan.jobs[parent].action == Action::Reuse);
    });
    same[job] = all;
    if (all) ++count;
  }
  return count;
}

}  // namespace

std::optional<Twin> find_twin(const Plan& plan, Store& store) {
  std::optional<Twin> most;
  for (const auto& [run, shared] : store.shared_with_open_runs(plan.directory.string())) {
    const size_t jobs = count_same(plan, shared);
    if (jobs > (most ? most->jobs : 0)) most = Twin{run, jobs};
  }
  return most;
}

}  // namespace dlflow
