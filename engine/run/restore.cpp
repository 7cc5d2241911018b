#include "engine/run/restore.h"

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
    if (row.state != JobState::Cached || plan.reused.contains(job)) continue;
    KnownResult known;
    known.run = plan.run;
    known.job = row.job;
    known.directory = row.directory;
    if (const auto result = published_result(row.directory)) {
      known.outputs = result->outputs;
      known.metrics = result->metrics;
    }
    plan.reused.emplace(job, std::move(known));
  }
}

void take_states(Jobs& jobs, const RunStatus& status) {
  for (uint32_t job = 0; job < jobs.size(); ++job) {
    const JobRow& row = status.jobs[job];
    jobs[job].state = row.state;
    jobs[job].attempt = row.attempt;
    jobs[job].tries = row.attempt;
  }
}

std::unique_ptr<Engine> restored_engine(const fs::path& run_directory, const Services& services,
                                        const RunOptions& options) {
  Plan plan = load_run(run_directory);
  services.backend.check(plan);
  services.backend.begin(plan.directory);
  services.store.sync_run(plan.directory);
  const RunStatus status = services.store.status(plan.run);
  take_reused(plan, status);
  auto engine = std::make_unique<Engine>(std::move(plan), services, options);
  take_states(engine->jobs(), status);
  for (uint32_t job = 0; job < engine->jobs().size(); ++job) {
    if (is_active(engine->jobs()[job].state)) recover(*engine, job, services.backend);
  }
  return engine;
}

}  // namespace dlflow
