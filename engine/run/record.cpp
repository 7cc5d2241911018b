#include "engine/run/record.h"

#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/remove_tree.h"
#include "engine/plan/run_directory.h"

namespace dlflow {

void record_new_run(const Plan& plan, Store& store) {
  try {
    store.create_run(plan);
  } catch (const std::exception&) {
    std::error_code ignored;
    remove_tree(plan.directory, ignored);
    throw;
  }
}

RunRecord::RunRecord(const Plan& plan, std::vector<JobProgress> known, Store& store,
                     const Clock& clock)
    : plan_(plan),
      jobs_(plan, std::move(known)),
      store_(store),
      clock_(clock),
      file_(engine_events_file(plan.directory)) {}

JobEvent RunRecord::event(uint32_t job, JobState state, const std::string& reason) const {
  return {.job = plan_.jobs[job].name,
          .attempt = jobs_[job].attempt,
          .state = state,
          .at = clock_.now(),
          .reason = reason};
}

void RunRecord::decide(uint32_t job, JobState state, const std::string& reason,
                       const std::string& backend_id) {
  JobEvent moved = event(job, state, reason);
  moved.backend_id = backend_id;
  decide(job, std::move(moved));
}

void RunRecord::submit_anew(uint32_t job) {
  JobEvent intent = event(job, JobState::Submitting, "");
  ++intent.attempt;
  decide(job, std::move(intent));
}

void RunRecord::plan_again(uint32_t job, int tries, const std::string& reason) {
  JobEvent planned = event(job, JobState::Planned, reason);
  planned.failed_tries = tries;
  decide(job, std::move(planned));
}

void RunRecord::reuse(uint32_t job) {
  const KnownResult& known = plan_.reused.at(job);
  JobEvent cached = event(job, JobState::Cached, "reused from " + known.run);
  cached.fingerprint = known.fingerprint;
  cached.outputs = known.outputs;
  cached.metrics = known.metrics;
  cached.reused_from = known.directory.string();
  decide(job, std::move(cached));
}

void RunRecord::decide(const Decision& decision) {
  using enum Decision::Kind;
  switch (decision.kind) {
    case Skip:
      return decide(decision.job, JobState::Skipped, decision.reason);
    case Block:
      return decide(decision.job, JobState::Blocked, decision.reason);
    case TryAgain:
      return plan_again(decision.job, jobs_[decision.job].tries, decision.reason);
    case Reuse:
      return reuse(decision.job);
    case Start:
    case LookUp:
    case GiveUp:
    case Withdraw:
      DLFLOW_CHECK(false);  // the executor itself does these
  }
}

bool RunRecord::observe(uint32_t job, JobEvent event) {
  const bool moves = jobs_.accepts(job, event);
  if (moves || !event.state) {
    write(job, std::move(event));
  } else {
    log(LogLevel::Info,
        plan_.jobs[job].name + ": '" + std::string(name(*event.state)) + "' came too late");
  }
  return moves;
}

bool RunRecord::take(uint32_t job, JobEvent event) {
  const bool moves = jobs_.accepts(job, event);
  publish(job, std::move(event));
  return moves;
}

uint64_t RunRecord::follow(uint32_t job) {
  jobs_.rewind(job);
  const int attempt = jobs_[job].attempt;
  EventTail tail(attempt_directory(job_directory(plan_, job), attempt) / "events.jsonl");
  for (JobEvent& event : tail.read()) {
    event.job = plan_.jobs[job].name;
    event.attempt = attempt;
    take(job, std::move(event));
  }
  return tail.offset();
}

void RunRecord::decide(uint32_t job, JobEvent event) {
  DLFLOW_CHECK(jobs_.accepts(job, event));
  write(job, std::move(event));
}

void RunRecord::write(uint32_t job, JobEvent event) {
  file_.append(to_line(event));
  synced_ = false;
  publish(job, std::move(event));
}

void RunRecord::publish(uint32_t job, JobEvent event) {
  jobs_.update(job, event);
  if (event.state && logs(LogLevel::Debug)) {
    log(LogLevel::Debug, event.job + ": " + std::string(name(*event.state)));
  }
  if (observer_ != nullptr) observer_->event(event);
  pending_.push_back(std::move(event));
}

void RunRecord::replace_jobs(std::vector<JobProgress> known) {
  DLFLOW_CHECK(pending_.empty());
  jobs_.replace(std::move(known));
}

void RunRecord::sync() {
  if (!synced_) file_.sync();
  synced_ = true;
}

void RunRecord::save() {
  if (pending_.empty()) return;
  store_.record(plan_.directory.string(), pending_);
  pending_.clear();
  crash_point("record");
}

void RunRecord::try_save() {
  try {
    save();
  } catch (const Error& error) {
    if (!error.retryable()) throw;
    log(LogLevel::Warning, error.what());
  }
}

}  // namespace dlflow
