#include "engine/run/restore.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/retry.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

bool is_active(JobState state) { return !is_final(state) && state != JobState::Planned; }

/// Ended without success, so that what needs it cannot run.
bool is_broken(JobState state) {
  return is_final(state) && !satisfies_dependents(state) && state != JobState::Skipped;
}

/// What jobs reused that was decided while the run went on; the plan knows the rest.
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

bool is_called(const Engine& engine, uint32_t job, const std::string& name) {
  const PlannedJob& planned = engine.plan().jobs[job];
  return planned.name == name || engine.plan().workflow.steps[planned.step].name == name;
}

bool is_meant(const Engine& engine, uint32_t job, const std::vector<std::string>& names) {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return is_called(engine, job, name);
         });
}

[[noreturn]] void throw_unknown(const Engine& engine, const std::string& name) {
  std::vector<std::string> candidates;
  for (const Step& step : engine.plan().workflow.steps) candidates.push_back(step.name);
  throw Error(Errc::NotFound, "run " + engine.plan().run + " has no step or job '" + name + "'" +
                                  did_you_mean(name, candidates));
}

/// Every name means a job that can be tried again.
void check_names(Engine& engine, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    bool known = false;
    bool broken = false;
    for (uint32_t job = 0; job < engine.jobs().size(); ++job) {
      if (!is_called(engine, job, name)) continue;
      known = true;
      const JobState state = engine.jobs()[job].state;
      broken |= is_broken(state) && state != JobState::Blocked;
    }
    if (!known) throw_unknown(engine, name);
    if (!broken) {
      throw Error(Errc::InvalidInput, "nothing of '" + name +
                                          "' failed, so there is nothing to run again; `dlflow run "
                                          "WORKFLOW --force STEP` repeats what succeeded");
    }
  }
}

bool has_broken_parent(Engine& engine, uint32_t job) {
  for (const JobRange& range : engine.plan().graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      if (is_broken(engine.jobs()[parent].state)) return true;
    }
  }
  return false;
}

/// Whether a retry was due that an engine could not start any more.
bool has_a_try_left(const Engine& engine, uint32_t job, const JobProgress& progress) {
  const Retry& retry = engine.plan().workflow.steps[engine.plan().jobs[job].step].retry;
  JobEvent ended;
  ended.state = progress.state;
  return should_retry(retry, ended, progress.tries);
}

}  // namespace

std::unique_ptr<Engine> restored_engine(const fs::path& run_directory, const Services& services,
                                        const RunOptions& options) {
  Plan plan = load_run(run_directory);
  services.backend.check(plan);
  services.backend.begin(plan.directory);
  services.store.sync_run(plan.directory);
  const RunStatus status = services.store.status(plan.run);
  take_reused(plan, status);
  auto engine = std::make_unique<Engine>(std::move(plan), services, options);
  for (uint32_t job = 0; job < engine->jobs().size(); ++job) {
    const JobRow& row = status.jobs[job];
    JobProgress& progress = engine->jobs()[job];
    progress.state = row.state;
    progress.attempt = row.attempt;
    progress.tries = row.attempt;
    if (is_active(row.state)) recover(*engine, job, services.backend);
  }
  return engine;
}

void plan_again(Engine& engine, const PlanAgain& what) {
  check_names(engine, what.names);
  for (uint32_t job = 0; job < engine.jobs().size(); ++job) {  // parents before children
    JobProgress& progress = engine.jobs()[job];
    if (!is_broken(progress.state)) continue;
    const bool ended_badly =
        progress.state == JobState::Failed || progress.state == JobState::TimedOut;
    if (progress.state == JobState::Blocked) {
      if (has_broken_parent(engine, job)) continue;
    } else if (!is_meant(engine, job, what.names)) {
      continue;
    } else if (ended_badly && !what.failed) {
      if (!has_a_try_left(engine, job, progress)) continue;
      engine.move(job, JobState::Planned, "tried again");
      continue;
    }
    progress.tries = 0;
    engine.move(job, JobState::Planned, "run again");
  }
  engine.jobs().count_unfinished_parents();
}

}  // namespace dlflow
