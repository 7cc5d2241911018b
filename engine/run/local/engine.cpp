#include "engine/run/local/engine.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "engine/plan/extension.h"
#include "engine/plan/notifications.h"
#include "engine/plan/secrets.h"
#include "engine/run/again.h"
#include "engine/run/cancel_request.h"
#include "engine/run/notify/notify.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 200ms;

/// The maximum age of the store that others read. A transaction costs as much as some ten events in
/// it.
constexpr std::chrono::milliseconds kSave = 50ms;

/// Returns for each job of `next` its number in `before`, or nothing if the job is new.
std::vector<std::optional<uint32_t>> numbers_before(const Plan& before, const Plan& next) {
  std::map<std::string_view, uint32_t> number_of;
  for (uint32_t job = 0; job < before.jobs.size(); ++job) number_of[before.jobs[job].name] = job;
  std::vector<std::optional<uint32_t>> numbers(next.jobs.size());
  for (uint32_t job = 0; job < next.jobs.size(); ++job) {
    const auto same = number_of.find(next.jobs[job].name);
    if (same != number_of.end()) numbers[job] = same->second;
  }
  return numbers;
}

/// `values`, by job, under the jobs' present numbers.
template <typename T>
std::map<uint32_t, T> renumbered(const std::map<uint32_t, T>& values,
                                 std::span<const std::optional<uint32_t>> before) {
  std::map<uint32_t, T> now;
  for (uint32_t job = 0; job < before.size(); ++job) {
    const auto value = before[job] ? values.find(*before[job]) : values.end();
    if (value != values.end()) now.emplace(job, value->second);
  }
  return now;
}

/// Whether every job of `active` has the same number in `next`, and none depends on the earlier
/// list of `source`.
bool keeps(const std::set<uint32_t>& active, uint32_t source, const Plan& plan, const Plan& next) {
  if (active.empty()) return true;
  const std::vector<uint32_t> after = descendants_of(plan, source);
  return std::ranges::all_of(active, [&](uint32_t job) {
    return job < next.jobs.size() && next.jobs[job].name == plan.jobs[job].name &&
           !std::ranges::binary_search(after, job);
  });
}

/// Records the jobs of `next` on disk and in the store.
void keep_extension(const Plan& next, RunRecord& record, const Services& services) {
  record.save();
  crash_point("list");
  write_extension(next.directory, next.extensions.back());
  crash_point("extension");
  services.store.sync_run(next.directory, &next);
  crash_point("extended");
  services.store.set_run_state(next.directory.string(), RunState::Running, services.clock.now());
}

}  // namespace

Engine::Engine(Plan plan, std::vector<JobProgress> known, const Services& services,
               const RunOptions& options)
    : plan_(std::move(plan)),
      services_(services),
      options_(options),
      record_(plan_, std::move(known), services.store, services.clock),
      results_(plan_, record_.jobs()),
      news_(plan_, record_.jobs()),
      is_queued_(plan_.jobs.size(), false),
      queue_(plan_, services.backend),
      handed_over_{plan_, record_, services.backend} {}

void Engine::recover(uint32_t job) {
  if (handed_over_.recover(job)) enqueue(job);
}

RunResult Engine::run() {
  keep_log(plan_.directory / "dlflow.log");
  begin();
  // An engine may have been killed before it had blocked the dependents of a failed job. Those of a
  // cancelled job that nobody runs again stay planned.
  look_at_jobs([](JobState state) { return state != JobState::Cancelled; });
  return work();
}

RunResult Engine::stop() {
  begin();
  stop_once();
  return work();
}

void Engine::begin() {
  withdraw_cancel_request(plan_.directory);  // it was meant for an engine before us
  services_.store.set_run_state(plan_.directory.string(), RunState::Running, services_.clock.now());
  record_.save();
  services_.observer.began(plan_, services_.store.status(plan_.directory.string()));
  record_.show_to(services_.observer);
  forget_removed(plan_, jobs());
  last_tick_ = last_save_ = services_.clock.now();
}

RunResult Engine::work() {
  while (true) {
    look_for_requests();
    settle();
    start_jobs();
    if (settle_idle()) continue;
    if (handed_over_.jobs.empty() && (is_idle() || queue_.empty())) return end();
    tick();  // while the started jobs run
    for (const Update& update : services_.backend.wait(patience(), interrupts_.descriptor())) {
      take(update);
    }
  }
}

RunResult Engine::end() {
  record_.save();
  crash_point("end");
  const RunState state = state_of_run(jobs());
  // The news needs the webhook's address, which is a secret. An engine that was asked to stop
  // leaves the end to the next one.
  if (stops_ == 0) news_.ended(state);
  if (state == RunState::Succeeded) remove_secrets(plan_.directory);
  const Time now = services_.clock.now();
  services_.store.set_run_state(plan_.directory.string(), state, now);
  services_.observer.ended(state, now);
  return {.state = state, .interrupted = interrupted_ && state != RunState::Succeeded};
}

Capabilities Engine::now() const {
  return {.stopping = stops_ > 0,
          .failed = failed_,
          .keep_going = options_.keep_going,
          .lists_pending = looks_for_lists_};
}

/// Whether nothing is at work, and nothing may start any more.
bool Engine::is_idle() const {
  if (!handed_over_.jobs.empty()) return false;
  return stops_ > 0 || (failed_ && !options_.keep_going && !queue_.holds_always());
}

std::chrono::milliseconds Engine::patience() const {
  const auto tick = record_.has_pending() ? kSave : kTick;
  const auto next = queue_.next_time();
  if (!next || stops_ > 0) return tick;
  return std::clamp<std::chrono::milliseconds>(*next - services_.clock.now(), 0ms, tick);
}

/// Decides on jobs in such states again, unless the back end has them. Their ends were dealt with.
template <typename Condition>
void Engine::look_at_jobs(const Condition& is_looked_at) {
  Changes changed;
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    if (is_looked_at(jobs()[job].state) && !handed_over_.jobs.contains(job)) changed[job];
  }
  Capabilities capabilities = now();
  capabilities.resumes = true;
  decide_on(changed, capabilities);
}

void Engine::decide_on(const Changes& changed, const Capabilities& capabilities) {
  for (const Decision& decision : decide(plan_, jobs(), changed, capabilities)) {
    carry_out(decision);
  }
}

/// Carries out decisions until nothing changes. Lists come before starts: they make the jobs that
/// there are.
void Engine::settle() {
  do {
    while (!changed_.empty()) decide_on(std::exchange(changed_, {}), now());
  } while (take_lists() || !changed_.empty());
}

/// The same when nothing may start any more. Returns whether there was a decision.
bool Engine::settle_idle() {
  if (!is_idle()) return false;
  if (stops_ > 0) {
    queue_.take_all();
    is_queued_.assign(jobs().size(), false);
  }
  const std::vector<Decision> decisions = decide_when_idle(plan_, jobs(), now());
  for (const Decision& decision : decisions) carry_out(decision);
  return !decisions.empty();
}

void Engine::carry_out(const Decision& decision) {
  using enum Decision::Kind;
  const uint32_t job = decision.job;
  switch (decision.kind) {
    case Start:
      return enqueue(job);
    case LookUp:
      return look_up(job);
    case Withdraw:
      return withdraw(job);
    case GiveUp:
      failed_ |= decision.ends_run;
      return news_.failed(job, decision.reason);
    case TryAgain:
      record_.decide(decision);
      not_before_[job] = services_.clock.now() + decision.delay;
      return enqueue(job);
    case Reuse:
      looks_for_lists_ |= leaves_lists(plan_, plan_.jobs[job].step);
      break;
    case Skip:
    case Block:
      break;
  }
  record_.decide(decision);
  changed_[job];
}

void Engine::look_up(uint32_t job) {
  const auto left = [this](uint32_t parent) { return results_.of(parent); };
  auto known = reusable_result(plan_, job, fingerprint_base(plan_, job),
                               parents_as_seen(plan_, job, left), services_.store);
  if (!known) return enqueue(job);
  plan_.reused[job] = std::move(*known);
  carry_out({.kind = Decision::Kind::Reuse, .job = job});
}

/// A job is cancelled, unless an earlier engine had handed it over and it has begun meanwhile: then
/// it is asked to end, too.
void Engine::withdraw(uint32_t job) {
  const bool is_planned = jobs()[job].state == JobState::Planned;
  if (is_planned || services_.backend.withdraw(handed_over_.submission(job))) {
    return record_.decide(job, JobState::Cancelled);
  }
  recover(job);
  services_.backend.stop(job, stops_ == 1 ? Stop::AndSave : Stop::AtOnce);
}

/// Lays out the lists that steps have left since. Returns whether jobs are to be decided on again.
bool Engine::take_lists() {
  if (!looks_for_lists_ || stops_ > 0) return false;  // the next engine finds them again
  while (std::exchange(looks_for_lists_, false)) {
    for (const uint32_t job : list_sources(plan_, jobs(), false)) {
      if (looks_for_lists_) break;
      try {
        if (take_list(job)) return false;
      } catch (const Error& error) {
        if (error.retryable()) throw;
        const std::string& name = step_of(plan_, job).name;  // the job itself succeeded
        for (const Decision& decision : refuse_list(plan_, jobs(), name, error.what())) {
          carry_out(decision);
        }
      }
    }
  }
  look_at_jobs([](JobState state) { return !is_final(state); });
  return true;
}

/// Lays out the list that `job` has left, unless that is done. Returns whether it has to wait,
/// since a running job would get another number.
bool Engine::take_list(uint32_t job) {
  auto extension = extension_for(plan_, results_.of(job));
  if (!extension) return false;
  Plan next = extended(plan_, *extension);
  services_.backend.check(next);
  const bool lists_again = has_list_of(plan_, extension->step);
  const bool has_to_wait = !keeps(handed_over_.jobs, job, plan_, next);
  if (lists_again && !has_to_wait) keep_listed_results(plan_, jobs(), job, services_.store);
  looks_for_lists_ = true;
  if (has_to_wait) return true;
  if (lists_again) {
    plan_listed_again(plan_, jobs(), job, record_.planner());
    record_.sync();
    crash_point("listed again");
    next = extended(plan_, std::move(*extension));
  }
  extend(std::move(next));
  return false;
}

/// Continues with the jobs of `next`. If the engine is killed here, the next one does the rest: it
/// loads the run with the extension, or finds the list again.
void Engine::extend(Plan next) {
  keep_extension(next, record_, services_);
  const RunStatus status = services_.store.status(plan_.directory.string());
  take_reused(next, status);
  std::vector<JobProgress> known = progress_of(next, services_.store, status);
  const auto before = numbers_before(plan_, next);
  for (uint32_t job = 0; job < known.size(); ++job) {
    if (before[job]) known[job] = jobs()[*before[job]];
  }
  // Also those of jobs that wait for their next pass.
  handed_over_.events_read = renumbered(handed_over_.events_read, before);
  not_before_ = renumbered(not_before_, before);
  go_on_with(std::move(next), std::move(known));
  services_.observer.extended(plan_, status);
  look_at_jobs([](JobState) { return true; });
}

/// This engine has the jobs of `next` from now on, none of which is in the queue.
void Engine::go_on_with(Plan next, std::vector<JobProgress> known) {
  plan_ = std::move(next);
  record_.replace_jobs(std::move(known));
  results_.clear();
  queue_.take_all();
  changed_.clear();
  is_queued_.assign(jobs().size(), false);
}

/// A job that waited for its next try before a list was laid out still does.
void Engine::enqueue(uint32_t job) {
  if (is_queued_[job] || handed_over_.jobs.contains(job)) return;
  is_queued_[job] = true;
  const auto time = not_before_.find(job);
  if (time == not_before_.end()) return queue_.push(job);
  queue_.push(job, time->second);
}

void Engine::start_jobs() {
  const auto may = [this](uint32_t job) { return may_start(plan_, job, now()); };
  if (stops_ > 0 || looks_for_lists_) return;
  while (const auto job = queue_.pop(services_.clock.now(), handed_over_.jobs, may)) start(*job);
}

void Engine::start(uint32_t job) {
  is_queued_[job] = false;
  not_before_.erase(job);
  handed_over_.intend(job);
  // A queued job begins another pass of the same attempt.
  if (jobs()[job].state != JobState::Queued) crash_point("intent");
  plan_.graph.each_parent(job, [this](uint32_t parent) {
    // Only the engine knows the end of a job that never ran, or was lost.
    const JobState left = jobs()[parent].state;
    if (left == JobState::Skipped) plan_.skipped.insert(parent);
    if (is_broken(left)) plan_.failed.insert(parent);
  });
  handed_over_.start(job);
}

void Engine::take(const Update& update) {
  crash_point("ingest");
  const uint32_t job = update.job;
  // It may be an element that a later list left out.
  if (job >= jobs().size() || update.event.job != plan_.jobs[job].name) return;
  if (!handed_over_.take(update)) return;
  if (jobs()[job].state == JobState::Succeeded) {
    results_.add(job, update.event);
    looks_for_lists_ |= leaves_lists(plan_, plan_.jobs[job].step);
  }
  changed_[job] = update.event.reason;
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
  handed_over_.stop(how);
}

void Engine::tick() {
  const Time now = services_.clock.now();
  if (now - last_save_ >= kSave) {
    last_save_ = now;
    record_.try_save();
  }
  if (now - last_tick_ < kTick) return;
  last_tick_ = now;
  services_.observer.tick(now);
  if (withdraw_cancel_request(plan_.directory)) stop_once();
}

void RunNews::failed(uint32_t job, const std::string& reason) {
  const auto notify = read_notifications(plan_.directory);
  if (!notify) return;
  JobEvent end = ending_of(jobs_[job]);
  end.job = plan_.jobs[job].name;
  end.attempt = jobs_[job].attempt;
  end.reason = reason;
  const auto news = news_of(*notify, plan_.run, end, jobs_.is_allowed_failure(job));
  if (news) tell_aside(plan_.directory, *news);
  const bool counts = is_failure(*end.state) && !jobs_.is_allowed_failure(job);
  if (counts && !failure_) failure_ = std::move(end);
}

void RunNews::ended(RunState state) const {
  const bool failed = state == RunState::Failed;
  if (!failed && state != RunState::Succeeded) return;
  News news{.run = plan_.run, .state = failed ? JobState::Failed : JobState::Succeeded};
  if (failed && failure_) {
    news.state = *failure_->state;
    news.job = failure_->job;
    news.reason = failure_->reason;
  }
  for (uint32_t job = 0; job < jobs_.size(); ++job) news.number += jobs_[job].attempt;
  tell_aside(plan_.directory, news);
}

}  // namespace dlflow
