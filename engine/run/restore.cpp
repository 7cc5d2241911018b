#include "engine/run/restore.h"

#include <algorithm>
#include <utility>

#include "engine/plan/run_directory.h"

namespace dlflow {
void take_reused(Plan& plan, const RunStatus& status) {
  for (uint32_t job = 0; job < status.jobs.size(); ++job) {
    const JobRow& row = status.jobs[job];
    if (row.attempt > 0 && plan.reused.erase(job) > 0) {  // the result to be reused was gone
      plan.jobs[job].action = Action::Run;
    }
    if (row.state != JobState::Cached || plan.reused.contains(job)) continue;
    KnownResult known{.run = plan.run, .job = row.job, .directory = row.directory};
    if (const auto result = published_result(row.directory)) {
      known.fingerprint = result->fingerprint;
      known.outputs = result->outputs;
      known.metrics = result->metrics;
    }
    plan.reused.emplace(job, std::move(known));
  }
}

void sync_idle_run(Store& store, const std::filesystem::path& run_directory) {
  if (const auto lock = RunLock::try_acquire(run_directory)) store.sync_run(run_directory);
}

int count_tries(std::span<const JobEvent> events) {
  int attempt = 0;
  int before = 0;  // the latest attempt
  int in_it = 0;
  for (const JobEvent& event : events) {
    if (event.state == JobState::Planned) {
      before = event.failed_tries;
      in_it = 0;
    } else if (event.attempt >= attempt && event.attempt > 0) {
      attempt = event.attempt;
      in_it = std::max(in_it, event.failed_tries + 1);
    }
  }
  return before + in_it;
}

std::vector<JobProgress> progress_of(const Plan& plan, Store& store, const RunStatus& status) {
  std::vector<JobProgress> known(status.jobs.size());
  for (uint32_t job = 0; job < known.size(); ++job) {
    const JobRow& row = status.jobs[job];
    JobProgress& progress = known[job];
    progress.state = row.state;
    progress.attempt = row.attempt;
    progress.exit = row.exit;
    const bool may_retry = plan.workflow.steps[plan.jobs[job].step].retry.attempts > 1;
    if (may_retry && row.attempt > 0 && !satisfies_dependents(row.state)) {
      progress.tries = count_tries(store.events(plan.directory.string(), row.job));
    }
  }
  return known;
}

RunState state_of_run(const Jobs& jobs) {
  using enum JobState;
  size_t failed = jobs.count({Failed, TimedOut, Lost, Blocked});
  for (uint32_t job = 0; job < jobs.size() && failed > 0; ++job) {
    failed -= jobs.is_allowed_failure(job);
  }
  if (failed > 0) return RunState::Failed;
  return jobs.count({Cancelled}) > 0 ? RunState::Cancelled : RunState::Succeeded;
}

}  // namespace dlflow
