#include "engine/run/restore.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

bool is_active(JobState state) { return !is_final(state) && state != JobState::Planned; }

/// Follows an attempt's own record to where it is now. Returns how many bytes of it were read.
uint64_t follow_record(Engine& engine, uint32_t job) {
  JobProgress& progress = engine.jobs()[job];
  EventTail tail(attempt_directory(job_directory(engine.plan(), job), progress.attempt) /
                 "events.jsonl");
  progress.state = JobState::Submitting;
  progress.pass = 1;
  for (JobEvent& event : tail.read()) {
    event.job = engine.plan().jobs[job].name;
    event.attempt = progress.attempt;
    engine.journal().note(event);
    if (!event.state || !may_become(progress.state, *event.state)) continue;
    progress.state = *event.state;
    progress.exit = event.exit;
    if (progress.state == JobState::Queued) ++progress.pass;
  }
  return tail.offset();
}

void recover(Engine& engine, uint32_t job, Backend& backend) {
  const uint64_t events_read = follow_record(engine, job);
  if (is_final(engine.jobs()[job].state)) return;
  Submission submission = engine.submission(job);
  submission.events_read = events_read;
  switch (backend.recover(submission)) {
    case Recovery::NotStarted:
      return engine.hand_over_again(job, events_read);
    case Recovery::Watched:
      return engine.watch(job);
    case Recovery::Vanished:
      return engine.move(job, JobState::Lost, "its supervisor was killed");
  }
}

}  // namespace

void take_reused(Plan& plan, const RunStatus& status) {
  for (uint32_t job = 0; job < status.jobs.size(); ++job) {
    const JobRow& row = status.jobs[job];
    if (row.attempt > 0 && plan.reused.erase(job) > 0) {  // what it was to reuse was gone
      plan.jobs[job].action = Action::Run;
    }
    if (row.state != JobState::Cached || plan.reused.contains(job)) continue;
    KnownResult known;
    known.run = plan.run;
    known.job = row.job;
    known.directory = row.directory;
    if (const auto result = published_result(row.directory)) {
      known.fingerprint = result->fingerprint;
      known.outputs = result->outputs;
      known.metrics = result->metrics;
    }
    plan.reused.emplace(job, std::move(known));
  }
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

void take_states(const Plan& plan, Jobs& jobs, Store& store, const RunStatus& status) {
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    const JobRow& row = status.jobs[job];
    JobProgress& progress = jobs[job];
    progress.state = row.state;
    progress.attempt = row.attempt;
    progress.exit = row.exit;
    const bool may_retry = plan.workflow.steps[plan.jobs[job].step].retry.attempts > 1;
    if (may_retry && row.attempt > 0 && !satisfies_dependents(row.state)) {
      progress.tries = count_tries(store.events(plan.directory.string(), row.job));
    }
  }
}

std::unique_ptr<Engine> restored_engine(const fs::path& run_directory, const Services& services,
                                        const RunOptions& options) {
  Plan plan = load_run(run_directory);
  services.backend.check(plan);
  services.backend.begin(plan.directory);
  services.store.sync_run(plan.directory);
  const RunStatus status = services.store.status(plan.directory.string());
  take_reused(plan, status);
  auto engine = std::make_unique<Engine>(std::move(plan), services, options);
  take_states(engine->plan(), engine->jobs(), services.store, status);
  for (uint32_t job = 0; job < engine->jobs().size(); ++job) {
    if (is_active(engine->jobs()[job].state)) recover(*engine, job, services.backend);
  }
  return engine;
}

}  // namespace dlflow
