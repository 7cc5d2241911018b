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
#include "engine/plan/retry.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/run/again.h"
#include "engine/run/cancel_request.h"
#include "engine/run/notify/notify.h"
#include "engine/run/restore.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 200ms;

/// How old what others read in the store may be. A transaction costs as much as some ten events in
/// it.
constexpr std::chrono::milliseconds kSave = 50ms;

/// By job of `next`: its number in `before`; nothing for one that is new.
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

/// `values`, by job, under the jobs' numbers of now.
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

/// Whether every job of `active` has the same number in `next`, and none has what an earlier list
/// of `source` gave it.
bool keeps(const std::set<uint32_t>& active, uint32_t source, const Plan& plan, const Plan& next) {
  if (active.empty()) return true;
  const std::vector<uint32_t> after = descendants_of(plan, source);
  return std::ranges::all_of(active, [&](uint32_t job) {
    return job < next.jobs.size() && next.jobs[job].name == plan.jobs[job].name &&
           !std::ranges::binary_search(after, job);
  });
}

/// The run on disk and in the store has the jobs of `next` from now on.
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
      was_open_(plan_.jobs.size(), false),
      queue_(plan_, services.backend),
      precedes_always_(steps_before_always(plan_.workflow)) {}

Submission Engine::submission(uint32_t job) const {
  const JobProgress& progress = jobs()[job];
  const auto read = events_read_.find(job);
  return {.job = job,
          .name = plan_.jobs[job].name,
          .attempt = progress.attempt,
          .pass = progress.pass,
          .job_directory = job_directory(plan_, job),
          .resources = *plan_.jobs[job].resources,
          .events_read = read == events_read_.end() ? 0 : read->second};
}

void Engine::recover(uint32_t job) {
  events_read_[job] = record_.follow(job);
  if (is_final(jobs()[job].state)) return;
  switch (services_.backend.recover(submission(job))) {
    case Recovery::NotStarted:
      return queue_.push(job);
    case Recovery::Watched:
      active_.insert(job);
      return;
    case Recovery::Vanished:
      record_.decide(job, JobState::Lost, "its supervisor was killed");
  }
}

RunResult Engine::run() {
  keep_log(plan_.directory / "dlflow.log");
  begin();
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    // An engine may have been killed before it had blocked all of them.
    if (jobs()[job].state != JobState::Cancelled) block_descendants(job);
  }
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
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    if (jobs()[job].state == JobState::Planned) act(job);
  }
  last_tick_ = last_save_ = services_.clock.now();
}

RunResult Engine::work() {
  while (true) {
    look_for_requests();
    look_at_open();
    start_jobs();
    if (stops_ > 0 && active_.empty()) withdraw_waiting();
    if (give_up_before_always()) continue;
    if (is_over()) return end();
    for (const Update& update : services_.backend.wait(patience(), interrupts_.descriptor())) {
      take(update);
    }
    tick();
  }
}

RunResult Engine::end() {
  if (stops_ > 0) cancel_open();
  record_.save();
  crash_point("end");
  const RunState state = jobs().run_state();
  // With the address of a webhook, which is a secret. Who was asked to stop leaves the end to
  // others.
  if (stops_ == 0) news_.ended(state);
  if (state == RunState::Succeeded) remove_secrets(plan_.directory);
  const Time now = services_.clock.now();
  services_.store.set_run_state(plan_.directory.string(), state, now);
  services_.observer.ended(state, now);
  return {.state = state, .interrupted = interrupted_ && state != RunState::Succeeded};
}

bool Engine::may_start() const { return stops_ == 0 && (!failed_ || options_.keep_going); }

/// After a failure only what runs always.
bool Engine::may_start(uint32_t job) const {
  return may_start() || (stops_ == 0 && plan_.workflow.steps[plan_.jobs[job].step].always);
}

/// After a failure, when nothing more of what it lets go on is left: what a step that always runs
/// waits for, and what will not start any more, ends by that. Whether there was such a job.
bool Engine::give_up_before_always() {
  if (may_start() || stops_ > 0 || !active_.empty() || queue_.holds_always()) return false;
  bool any = false;
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    const bool is_free = !is_final(jobs()[job].state) && jobs().unfinished_parents(job) == 0;
    if (!is_free || may_start(job) || !precedes_always_[plan_.jobs[job].step]) continue;
    record_.decide(job, JobState::Blocked, "not started, since the run has failed");
    block_descendants(job);
    any = true;
  }
  return any;
}

/// Once a stopped run has nothing active, its queue is empty: see withdraw_waiting().
bool Engine::is_over() const {
  if (!active_.empty()) return false;
  return may_start() ? queue_.empty() : !queue_.holds_always();
}

std::chrono::milliseconds Engine::patience() const {
  const auto tick = record_.has_pending() ? kSave : kTick;
  const auto next = queue_.next_time();
  if (!next || stops_ > 0) return tick;
  return std::clamp<std::chrono::milliseconds>(*next - services_.clock.now(), 0ms, tick);
}

void Engine::open_if_free(uint32_t job) {
  const bool free = jobs().unfinished_parents(job) == 0;
  if (jobs()[job].state != JobState::Planned || !free || was_open_[job]) return;
  was_open_[job] = true;
  open_.push_back(job);
}

/// Does what the state of a job asks for.
void Engine::act(uint32_t job, const std::string& reason) {
  const JobState state = jobs()[job].state;
  if (state == JobState::Planned) open_if_free(job);
  if (state == JobState::Queued) queue_.push(job);
  if (is_broken(state)) {
    act_on_failure(job, reason);
  } else if (is_final(state)) {
    plan_.graph.each_child(job, [this](uint32_t child) { open_if_free(child); });
  }
}

/// Other elements of a sweep go on after the failure of one.
void Engine::act_on_failure(uint32_t job, const std::string& reason) {
  const JobProgress& progress = jobs()[job];
  const Step& step = plan_.workflow.steps[plan_.jobs[job].step];
  if (may_start(job) && should_retry(step.retry, ending_of(progress), progress.tries)) {
    record_.plan_again(job, progress.tries,
                       "try " + std::to_string(progress.tries + 1) + " of " +
                           std::to_string(step.retry.attempts) +
                           " follows; the last one: " + reason);
    not_before_[job] = services_.clock.now() + retry_delay(progress.tries);
    queue_.push(job, not_before_.at(job));
    return;
  }
  if (stops_ > 0 && progress.state == JobState::Cancelled) return;  // resuming goes on with it
  news_.failed(job, reason);
  if (!jobs().is_allowed_failure(job) && step.matrix.empty()) failed_ = true;
  block_descendants(job);
}

/// And opens what may run all the same.
void Engine::block_descendants(uint32_t job) {
  if (!is_broken(jobs()[job].state)) return;
  std::set<uint32_t> free;
  const auto look_at = [&](uint32_t child) { free.insert(child); };
  plan_.graph.each_child(job, look_at);
  for (const uint32_t blocked : record_.block_descendants(job)) {
    plan_.graph.each_child(blocked, look_at);
  }
  for (const uint32_t child : free) open_if_free(child);
}

/// Lists come first: they make the jobs that there are.
void Engine::look_at_open() {
  do {
    if (take_lists()) return;
    std::deque<uint32_t> held_up;
    while (!open_.empty() && !looks_for_lists_) {
      const uint32_t job = open_.front();
      open_.pop_front();
      if (may_start(job)) {
        settle(job);
      } else {
        held_up.push_back(job);
      }
    }
    open_.insert(open_.begin(), held_up.begin(), held_up.end());
  } while (looks_for_lists_ && stops_ == 0);
}

/// Lays out what steps have listed since. Whether all has to wait with it.
bool Engine::take_lists() {
  while (std::exchange(looks_for_lists_, false)) {
    if (stops_ > 0) return true;  // the engine that comes after finds them again
    for (uint32_t job = 0; job < jobs().size() && !looks_for_lists_; ++job) {
      const uint32_t step = plan_.jobs[job].step;
      if (!satisfies_dependents(jobs()[job].state) || !leaves_lists(plan_, step)) continue;
      try {
        if (take_list(job)) return true;
      } catch (const Error& error) {
        if (error.retryable()) throw;
        give_up_list(plan_.workflow.steps[step].name, error.what());
      }
    }
  }
  return false;
}

/// Lays out the list that `job` has left, if that is not done. Whether it has to wait, since a job
/// that runs would get another number.
bool Engine::take_list(uint32_t job) {
  auto extension = extension_for(plan_, results_.of(job));
  if (!extension) return false;
  Plan next = extended(plan_, *extension);
  services_.backend.check(next);
  const bool lists_again = has_list_of(plan_, extension->step);
  const bool has_to_wait = !keeps(active_, job, plan_, next);
  if (lists_again && !has_to_wait) keep_listed_results(plan_, jobs(), job, services_.store);
  looks_for_lists_ = true;
  if (has_to_wait) return true;
  if (lists_again) {
    plan_listed_again(plan_, jobs(), job, [this](uint32_t again, int tries, const auto& why) {
      record_.plan_again(again, tries, why);
    });
    record_.sync();
    crash_point("listed again");
    next = extended(plan_, std::move(*extension));
  }
  extend(std::move(next));
  return false;
}

/// Goes on with the jobs of `next`. What an engine that is killed here has not done, the next one
/// does: it loads the run with the extension, or finds the list again.
void Engine::extend(Plan next) {
  keep_extension(next, record_, services_);
  const RunStatus status = services_.store.status(plan_.directory.string());
  take_reused(next, status);
  std::vector<JobProgress> known = progress_of(next, services_.store, status);
  const auto before = numbers_before(plan_, next);
  for (uint32_t job = 0; job < known.size(); ++job) {
    if (before[job]) known[job] = jobs()[*before[job]];
  }
  events_read_ = renumbered(events_read_, before);  // also of what waits for its next pass
  not_before_ = renumbered(not_before_, before);
  go_on_with(std::move(next), std::move(known));
  services_.observer.extended(plan_, status);
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    const JobState state = jobs()[job].state;
    if (state == JobState::Planned) act(job);
    const bool is_handed_over = active_.contains(job);
    if (is_under_way(state) && !is_handed_over) queue_.push(job);
    block_descendants(job);
  }
}

/// This engine has the jobs of `next` from now on, of which none is open or in the queue.
void Engine::go_on_with(Plan next, std::vector<JobProgress> known) {
  plan_ = std::move(next);
  record_.replace_jobs(std::move(known));
  results_.clear();
  queue_.take_all();
  open_.clear();
  was_open_.assign(jobs().size(), false);
}

/// The step's result cannot be laid out, though the step did well.
void Engine::give_up_list(const std::string& step, const std::string& reason) {
  for (uint32_t job = 0; job < jobs().size(); ++job) {
    const Matrix& matrix = plan_.workflow.steps[plan_.jobs[job].step].matrix;
    if (!takes_list_of(matrix, step) || jobs()[job].state != JobState::Planned) continue;
    record_.decide(job, JobState::Blocked, "the list of " + step + ": " + reason);
    block_descendants(job);
  }
}

/// A job that waits for nothing more is skipped, takes a known result, or is to run.
void Engine::settle(uint32_t job) {
  if (record_.block_if_hopeless(job)) return act(job);
  if (const Inputs inputs = jobs().inputs(job); inputs.kind == Inputs::Kind::Skip) {
    record_.decide(job, JobState::Skipped, words(inputs));
    return act(job);
  }
  if (is_open(plan_, job)) {  // it stands for elements, and is none
    if (jobs()[job].state == JobState::Planned) {
      record_.decide(job, JobState::Blocked, "no list was left for it");
    }
    return act(job);
  }
  // Of an earlier list, and blocked since the later one cannot be laid out.
  if (jobs()[job].state != JobState::Planned) return act(job);
  if (plan_.jobs[job].action == Action::DecideLater) {
    const auto left = [this](uint32_t parent) { return results_.of(parent); };
    auto known = reusable_result(plan_, job, fingerprint_base(plan_, job),
                                 parents_as_seen(plan_, job, left), services_.store);
    if (known) plan_.reused[job] = std::move(*known);
  }
  if (!plan_.reused.contains(job)) return enqueue(job);
  record_.reuse(job);
  looks_for_lists_ |= leaves_lists(plan_, plan_.jobs[job].step);
  act(job);
}

/// A job that waited for its next try before a list was laid out still does.
void Engine::enqueue(uint32_t job) {
  const auto time = not_before_.find(job);
  if (time == not_before_.end()) return queue_.push(job);
  queue_.push(job, time->second);
}

void Engine::start_jobs() {
  const auto may = [this](uint32_t job) { return may_start(job); };
  if (stops_ > 0 || looks_for_lists_) return;
  while (const auto job = queue_.pop(services_.clock.now(), active_, may)) start(*job);
}

void Engine::start(uint32_t job) {
  not_before_.erase(job);
  const JobState state = jobs()[job].state;
  if (state == JobState::Planned) {
    record_.submit_anew(job);
    events_read_.erase(job);  // of the attempt before
  }
  if (state == JobState::Submitting) record_.decide(job, JobState::Submitting);
  if (state != JobState::Queued) crash_point("intent");  // else another pass of the same attempt
  plan_.graph.each_parent(job, [this](uint32_t parent) {
    // Of a job that never ran, or was lost, only the engine knows how it ended.
    const JobState left = jobs()[parent].state;
    if (left == JobState::Skipped) plan_.skipped.insert(parent);
    if (is_broken(left)) plan_.failed.insert(parent);
  });
  make_attempt(plan_, job, jobs()[job].attempt);
  crash_point("attempt");
  services_.backend.submit(submission(job));
  crash_point("spawn");
  events_read_.erase(job);
  active_.insert(job);
}

void Engine::take(const Update& update) {
  crash_point("ingest");
  const uint32_t job = update.job;
  // Of an element that a later list left out.
  if (job >= jobs().size() || update.event.job != plan_.jobs[job].name) return;
  const bool moved =
      update.recorded ? record_.take(job, update.event) : record_.observe(job, update.event);
  const JobState state = jobs()[job].state;
  if (!moved || state == JobState::Running) return;
  active_.erase(job);
  if (state == JobState::Succeeded) {
    results_.add(job, update.event);
    looks_for_lists_ |= leaves_lists(plan_, plan_.jobs[job].step);
  }
  act(job, update.event.reason);
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

/// What is in the queue is cancelled, unless an earlier engine had handed it over and it has begun
/// meanwhile: then that is asked to end, too.
void Engine::withdraw_waiting() {
  for (const uint32_t job : queue_.take_all()) {
    if (is_final(jobs()[job].state)) continue;  // given up
    const bool is_planned = jobs()[job].state == JobState::Planned;
    if (is_planned || services_.backend.withdraw(submission(job))) {
      record_.decide(job, JobState::Cancelled);
      continue;
    }
    recover(job);
    services_.backend.stop(job, stops_ == 1 ? Stop::AndSave : Stop::AtOnce);
  }
}

/// Jobs that were only held up by us: so the run's record says that it was cancelled, also if
/// nothing ran at that moment. What waits for other jobs stays planned.
void Engine::cancel_open() {
  for (const uint32_t job : open_) {
    if (jobs()[job].state == JobState::Planned) record_.decide(job, JobState::Cancelled);
  }
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
