#include "engine/run/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "engine/plan/retry.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 200ms;

/// How old what others read in the store may be. A transaction costs as much as some ten events in
/// it.
constexpr std::chrono::milliseconds kSave = 50ms;

Json object_or_empty(const Json& json) { return json.is_object() ? json : Json::object(); }

/// What the end of a job of this run says that it left.
KnownResult known_result(const Plan& plan, uint32_t job, const JobEvent& end) {
  return {.run = plan.run,
          .job = plan.jobs[job].name,
          .directory = job_directory(plan, job),
          .fingerprint = end.fingerprint,
          .outputs = object_or_empty(end.outputs),
          .metrics = object_or_empty(end.metrics)};
}

}  // namespace

std::filesystem::path cancel_file(const std::filesystem::path& run_directory) {
  return run_directory / "cancel";
}

Engine::Engine(Plan plan, const Services& services, const RunOptions& options)
    : plan_(std::move(plan)),
      services_(services),
      options_(options),
      jobs_(plan_),
      journal_(plan_, services.store, services.observer) {}

JobEvent Engine::event(uint32_t job, JobState state, const std::string& reason) const {
  JobEvent event;
  event.job = plan_.jobs[job].name;
  event.attempt = jobs_[job].attempt;
  event.state = state;
  event.at = services_.clock.now();
  event.reason = reason;
  if (state == JobState::Planned) event.failed_tries = jobs_[job].tries;
  return event;
}

void Engine::move(uint32_t job, JobState state, const std::string& reason) {
  DLFLOW_CHECK(may_become(jobs_[job].state, state));
  jobs_[job].state = state;
  journal_.write(event(job, state, reason));
}

void Engine::hand_over_again(uint32_t job, uint64_t events_read) {
  events_read_[job] = events_read;
  put_into_queue(job);
}

Submission Engine::submission(uint32_t job) const {
  const JobProgress& progress = jobs_[job];
  const auto read = events_read_.find(job);
  return {.job = job,
          .name = plan_.jobs[job].name,
          .attempt = progress.attempt,
          .pass = progress.pass,
          .job_directory = job_directory(plan_, job),
          .resources = plan_.jobs[job].resources,
          .events_read = read == events_read_.end() ? 0 : read->second};
}

RunResult Engine::run() {
  begin();
  return work();
}

RunResult Engine::stop() {
  begin();
  stop_once();
  return work();
}

RunResult Engine::work() {
  while (true) {
    look_for_requests();
    look_at_open();
    start_jobs();
    if (is_over()) return end();
    for (const Update& update : services_.backend.wait(patience(), interrupts_.descriptor())) {
      take(update);
    }
    tick();
  }
}

void Engine::begin() {
  std::error_code ignored;
  std::filesystem::remove(cancel_file(plan_.directory), ignored);  // meant for an engine before us
  services_.store.set_run_state(plan_.directory.string(), RunState::Running, services_.clock.now());
  journal_.finish();
  services_.observer.began(plan_, services_.store.status(plan_.directory.string()));
  journal_.show();
  for (uint32_t job = 0; job < jobs_.size(); ++job) {
    const JobProgress& progress = jobs_[job];
    if (progress.state == JobState::Planned && progress.unfinished_parents == 0) {
      open_.push_back(job);
    }
  }
  last_tick_ = last_save_ = services_.clock.now();
}

RunResult Engine::end() {
  if (stops_ > 0) cancel_waiting();
  journal_.finish();
  crash_point("end");
  const RunState state = jobs_.run_state();
  if (state == RunState::Succeeded) remove_secrets(plan_.directory);
  const Time now = services_.clock.now();
  services_.store.set_run_state(plan_.directory.string(), state, now);
  services_.observer.ended(state, now);
  return {.state = state, .interrupted = interrupted_ && state != RunState::Succeeded};
}

bool Engine::may_start() const { return stops_ == 0 && (!failed_ || options_.keep_going); }

bool Engine::is_over() const {
  if (!active_.empty()) return false;
  return !may_start() || (ready_.empty() && delayed_.empty());
}

std::chrono::milliseconds Engine::patience() const {
  const auto tick = journal_.has_pending() ? kSave : kTick;
  if (delayed_.empty() || !may_start()) return tick;
  const auto next = delayed_.begin()->first - services_.clock.now();
  return std::clamp<std::chrono::milliseconds>(next, 0ms, tick);
}

void Engine::look_at_open() {
  while (!open_.empty() && may_start()) {
    const uint32_t job = open_.front();
    open_.pop_front();
    look_at(job);
  }
}

void Engine::look_at(uint32_t job) {
  if (jobs_[job].lacks_input) {
    move(job, JobState::Skipped, "a step whose outputs it uses was skipped");
    done(job);
    return;
  }
  if (plan_.jobs[job].action == Action::DecideLater) {
    const auto left = [this](uint32_t parent) { return result_of(parent); };
    auto known = reusable_result(plan_, job, parents_as_seen(plan_, job, left), services_.store);
    if (known) plan_.reused[job] = std::move(*known);
  }
  if (plan_.reused.contains(job)) {
    reuse(job);
  } else {
    put_into_queue(job);
  }
}

void Engine::reuse(uint32_t job) {
  const KnownResult& known = plan_.reused.at(job);
  JobEvent cached = event(job, JobState::Cached, "reused from " + known.run);
  cached.fingerprint = known.fingerprint;
  cached.outputs = known.outputs;
  cached.metrics = known.metrics;
  cached.reused_from = known.directory.string();
  jobs_[job].state = JobState::Cached;
  journal_.write(cached);
  done(job);
}

/// What a parent left; its record is read again if it ended before this engine began.
ParentResult Engine::result_of(uint32_t job) const {
  const auto ended = results_.find(job);
  if (ended != results_.end()) return as_parent(plan_, job, ended->second);
  const auto reused = plan_.reused.find(job);
  if (reused != plan_.reused.end()) return as_parent(plan_, job, reused->second);
  const std::filesystem::path directory = job_directory(plan_, job);
  const auto published = published_result(directory);
  if (published) return as_parent(plan_, job, known_result(plan_, job, *published));
  ParentResult none = as_parent(plan_, job, {});
  none.skipped = jobs_[job].state == JobState::Skipped;
  return none;
}

void Engine::start_jobs() {
  if (!may_start()) return;
  const Time now = services_.clock.now();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const uint32_t job = delayed_.begin()->second;
    put_into_queue(job);
    delayed_.erase(delayed_.begin());
  }
  while (const auto job = ready_.pop([this](uint32_t j) { return has_room(j); })) start(*job);
}

int Engine::max_parallel(uint32_t job) const {
  return plan_.workflow.steps[plan_.jobs[job].step].matrix.max_parallel;
}

/// Steps that limit themselves have lanes of their own, so that they let others pass.
void Engine::put_into_queue(uint32_t job) {
  const uint32_t lane = max_parallel(job) > 0 ? plan_.jobs[job].step + 1 : 0;
  ready_.push(job, plan_.jobs[job].resources, lane);
}

bool Engine::has_room(uint32_t job) const {
  if (const int most = max_parallel(job); most > 0) {
    const PlannedJob& planned = plan_.jobs[job];
    const uint32_t first = job - planned.element;
    const auto end = first + uint32_t(plan_.steps[planned.step].elements->size());
    const auto active = std::distance(active_.lower_bound(first), active_.lower_bound(end));
    if (active >= most) return false;
  }
  return services_.backend.has_room(plan_.jobs[job].resources);
}

void Engine::start(uint32_t job) {
  JobProgress& progress = jobs_[job];
  if (progress.state == JobState::Planned) {
    ++progress.attempt;
    ++progress.tries;
    progress.pass = 1;
  }
  if (progress.state != JobState::Queued) {  // else this is another pass of the same attempt
    move(job, JobState::Submitting, "");
    crash_point("intent");
  }
  note_skipped_parents(job);
  make_attempt(plan_, job, progress.attempt);
  crash_point("attempt");
  services_.backend.submit(submission(job));
  crash_point("spawn");
  events_read_.erase(job);
  active_.insert(job);
}

/// Of a job that never ran, only the engine knows that it was skipped.
void Engine::note_skipped_parents(uint32_t job) {
  for (const JobRange& range : plan_.graph.parents(job)) {
    for (uint32_t parent = range.first; parent < range.first + range.count; ++parent) {
      if (jobs_[parent].state == JobState::Skipped) plan_.skipped.insert(parent);
    }
  }
}

void Engine::take(const Update& update) {
  crash_point("ingest");
  const JobEvent& event = update.event;
  if (update.recorded) {
    journal_.note(event);
  } else {
    journal_.write(event);
  }
  JobProgress& progress = jobs_[update.job];
  const bool moves = event.state && event.attempt == progress.attempt &&
                     event.state != progress.state && may_become(progress.state, *event.state);
  if (!moves) return;
  progress.state = *event.state;
  if (progress.state == JobState::Running) return;
  active_.erase(update.job);
  if (progress.state == JobState::Queued) {
    requeue(update.job);
  } else if (satisfies_dependents(progress.state)) {
    results_[update.job] = known_result(plan_, update.job, event);
    done(update.job);
  } else if (progress.state == JobState::Skipped) {
    done(update.job);
  } else {
    failed(update.job, event);
  }
}

void Engine::requeue(uint32_t job) {
  ++jobs_[job].pass;
  put_into_queue(job);
}

void Engine::done(uint32_t job) {
  for (const uint32_t child : jobs_.release_children(job)) {
    if (jobs_[child].state == JobState::Planned) open_.push_back(child);
  }
}

void Engine::failed(uint32_t job, const JobEvent& ended) {
  const JobProgress& progress = jobs_[job];
  const Retry& retry = plan_.workflow.steps[plan_.jobs[job].step].retry;
  if (may_start() && should_retry(retry, ended, progress.tries)) {
    move(job, JobState::Planned,
         "try " + std::to_string(progress.tries + 1) + " of " + std::to_string(retry.attempts) +
             " follows; the last one: " + ended.reason);
    delayed_.emplace(services_.clock.now() + retry_delay(progress.tries), job);
    return;
  }
  if (stops_ > 0 && progress.state == JobState::Cancelled) return;  // resuming goes on with it
  failed_ = true;
  const std::string reason = "waits for " + plan_.jobs[job].name;
  for (const uint32_t child : jobs_.block_descendants(job)) {
    journal_.write(event(child, JobState::Blocked, reason));
  }
}

void Engine::look_for_requests() {
  for (int signals = interrupts_.take(); signals > 0; --signals) {
    interrupted_ = true;
    stop_once();
  }
}

void Engine::stop_once() {
  const Stop how = stops_++ == 0 ? Stop::AndSave : Stop::AtOnce;
  if (how == Stop::AndSave) services_.observer.stopping();
  for (const uint32_t job : active_) services_.backend.stop(job, how);
}

/// Jobs that were only held up by us: so the run's record says that it was cancelled, also if
/// nothing ran at that moment. What waits for other jobs stays planned.
void Engine::cancel_waiting() {
  const auto cancel = [this](uint32_t job) { move(job, JobState::Cancelled, ""); };
  for (const uint32_t job : open_) cancel(job);
  while (const auto job = ready_.pop([](uint32_t) { return true; })) cancel(*job);
  for (const auto& [when, job] : delayed_) cancel(job);
}

void Engine::tick() {
  const Time now = services_.clock.now();
  if (now - last_save_ >= kSave) {
    last_save_ = now;
    journal_.save();
  }
  if (now - last_tick_ < kTick) return;
  last_tick_ = now;
  services_.observer.tick(now);
  std::error_code none;
  if (std::filesystem::remove(cancel_file(plan_.directory), none)) stop_once();
}

}  // namespace dlflow
