#include "engine/run/reuses.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

void add_own_records(const RunSummary& run, std::vector<Reuse>& reuses) {
  const auto add = [&](const std::string& from) {
    reuses.push_back({run.run, run.directory, from});
  };
  for (const auto& [job, known] : load_run(run.directory).reused) add(known.directory);
  for (const JobEvent& event : EventTail(engine_events_file(run.directory)).read()) {
    if (!event.reused_from.empty()) add(event.reused_from);
  }
}

/// Whether its result would be reused if it existed.
bool is_reusable(const Plan& plan, const PlannedJob& job) {
  const bool runs_anyway = job.cause == Cause::Forced || job.cause == Cause::ActsOutside ||
                           job.cause == Cause::Always || plan.steps[job.step].sees_run;
  return job.action != Action::Reuse && !runs_anyway;
}

/// The number of jobs in `shared`, jobs with the same inputs in two runs, whose parents are in it
/// or reused, too. Parents come before their children.
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

std::vector<Reuse> reuses_of_runs(Store& store) {
  std::vector<Reuse> reuses = store.reuses();
  for (const RunSummary& run : store.runs()) {
    if (run.state != RunState::Running && run.state != RunState::Interrupted) continue;
    try {
      add_own_records(run, reuses);
    } catch (const Error&) {
      continue;  // gone or damaged: no process continues it
    }
  }
  return reuses;
}

std::optional<Twin> find_twin(const Plan& plan, Store& store) {
  std::optional<Twin> most;
  for (const auto& [run, shared] : store.shared_with_open_runs(plan.directory.string())) {
    const size_t jobs = count_same(plan, shared);
    if (jobs > (most ? most->jobs : 0)) most = Twin{run, jobs};
  }
  return most;
}

}  // namespace dlflow
