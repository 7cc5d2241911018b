#include "engine/batch/job_exec.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "engine/batch/batch.h"
#include "engine/batch/batch_file.h"
#include "engine/plan/needed_inputs.h"
#include "engine/plan/retry.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/parents.h"
#include "engine/supervisor/supervisor.h"
#include "engine/supervisor/watch.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kNotRecorded = 1;
constexpr int kStopped = 128 + 15;

/// One attempt of a job, as its earlier passes left it.
class Attempt {
 public:
  Attempt(JobSpec spec, int number)
      : spec_(std::move(spec)),
        number_(number),
        directory_(attempt_directory(spec_.job_directory, number)) {
    make_directories(directory_);
    const fs::path file = directory_ / "job.json";
    if (!fs::exists(file)) write_file_atomic(file, to_json(spec_).dump() + "\n");
    read();
  }

  const JobSpec& spec() const { return spec_; }
  int number() const { return number_; }
  const fs::path& directory() const { return directory_; }

  /// The last state on record.
  std::optional<JobState> state() const { return last_ ? last_->state : std::nullopt; }
  std::optional<int> exit() const { return last_ ? last_->exit : std::nullopt; }
  int failed_tries() const { return failed_tries_; }
  /// The last pass is tried again for want of memory.
  bool wants_more_memory() const {
    JobEvent ended;
    ended.state = JobState::Failed;
    ended.exit = exit();
    return dlflow::wants_more_memory(spec_.retry, ended);
  }
  /// A note without a state came last: SIGTERM ended the pass.
  bool was_stopped() const { return stopped_; }
  /// Of the next pass, where one before it timed out and it is to be longer; 0: as the job asks.
  std::chrono::seconds walltime() const { return walltime_; }
  /// The last pass timed out, and the next one is longer.
  bool wants_more_time() const { return last_ && last_->walltime.count() > 0; }
  /// The same, and it saved a checkpoint first.
  bool has_saved() const { return stopped_ && stopped_exit_ == kExitAgain; }

  void read() {
    last_.reset();
    stopped_ = false;
    for (JobEvent& event : EventTail(directory_ / "events.jsonl").read()) {
      failed_tries_ = std::max(failed_tries_, event.failed_tries);
      stopped_ = !event.state.has_value();
      if (stopped_) stopped_exit_ = event.exit;
      if (event.walltime.count() > 0) walltime_ = event.walltime;
      if (event.state) last_ = std::move(event);
    }
  }

  void record(JobEvent event, const Allocation& allocation) const {
    event.at = SystemClock().now();
    event.backend_id = allocation.id;
    event.node = host_name();
    AppendFile file(directory_ / "events.jsonl");
    file.append(to_line(event));
    file.sync();
  }

 private:
  JobSpec spec_;
  int number_;
  fs::path directory_;
  std::optional<JobEvent> last_;  // with a state
  int failed_tries_ = 0;
  bool stopped_ = false;
  std::chrono::seconds walltime_{0};
  std::optional<int> stopped_exit_;
};

/// What the batch system is to think of a job whose record ends so.
int exit_status(const Attempt& attempt, const Allocation& allocation) {
  if (attempt.was_stopped()) return allocation.reserves_statuses ? kNotRecorded : kStopped;
  const auto state = attempt.state();
  if (!state) return kNotRecorded;
  if (satisfies_dependents(*state) || *state == JobState::Skipped) return 0;
  // Else those that wait for the task of an array would never start. They look themselves.
  if (attempt.spec().allow_failure && is_failure(*state)) return 0;
  return allocation.reserves_statuses ? 1 : std::max(1, attempt.exit().value_or(1));
}

/// The pass before this one left no end: what became of it is known now. Whether the job goes on.
/// \param node  that it was on; batch systems know it without its domain
bool count_unended_pass(const Attempt& attempt, const std::string& node,
                        const Allocation& allocation) {
  if (attempt.has_saved()) {  // preempted, most likely: no failure, and no work is lost
    JobEvent next;
    next.state = JobState::Queued;
    next.reason = "taken away, goes on from its checkpoint";
    next.exit = kExitAgain;
    next.failed_tries = attempt.failed_tries();
    attempt.record(std::move(next), allocation);
    return true;
  }
  JobEvent lost;
  lost.state = JobState::Lost;
  lost.preempted = attempt.was_stopped();  // a node that fails tells nobody
  lost.reason = lost.preempted ? "its node was taken away" : "its node failed";
  if (!lost.preempted && attempt.spec().resources.ranks == 1)
    lost.failed_node = node.substr(0, node.find('.'));
  lost.failed_tries = attempt.failed_tries();
  const int tries = attempt.failed_tries() + 1;
  const Retry& retry = attempt.spec().retry;
  const bool again = should_retry(retry, lost, tries);
  if (again) {
    lost.state = JobState::Queued;
    lost.reason = "try " + std::to_string(tries + 1) + " of " + std::to_string(retry.attempts) +
                  " follows; the last one: " + lost.reason;
    lost.failed_tries = tries;
    lost.preempted = false;
  }
  attempt.record(std::move(lost), allocation);
  return again;
}

/// Until the records of the parents are to be seen here, or that time. What they say is for the
/// supervisor.
void wait_for_parents(const JobSpec& spec, steady_clock::time_point end) {
  while (steady_clock::now() < end && !have_ended(spec.parents)) {
    std::this_thread::sleep_for(std::min<steady_clock::duration>(end - steady_clock::now(), 500ms));
  }
}

/// Whether a parent that may end without success has no end on record and is still at work, as far
/// as the batch system knows: that let this job start too early, as after a requeue. Where several
/// share the task, it may be any: the task waits for the end of what only some of them need.
bool has_parent_at_work(const JobSpec& spec, bool is_shared, const Allocation& allocation) {
  return std::any_of(spec.parents.begin(), spec.parents.end(), [&](const ParentRef& parent) {
    const bool may_lack =
        (is_shared || spec.always || parent.may_fail) && !parent.failed && !parent.skipped;
    if (!may_lack || have_ended({parent})) return false;
    const std::vector<int> numbers = attempts(parent.directory);
    if (numbers.empty()) return false;
    const auto claim = newest_claim(attempt_directory(parent.directory, numbers.back()));
    return claim && allocation.is_at_work(claim->backend_id);
  });
}

/// Takes away what failed passes left; a checkpoint is kept. One that still writes there, on a node
/// that was given up, keeps its folder.
void clear(const Attempt& attempt) {
  fs::remove(attempt.directory() / "metrics.jsonl");
  for (const auto& entry : fs::directory_iterator(attempt.directory())) {
    std::error_code in_use;
    if (entry.path().filename().string().starts_with("pass-")) remove_tree(entry.path(), in_use);
  }
}

/// What the next try gets if this one runs out of memory: as much more as the step says, if a node
/// has it.
uint64_t more_memory(const JobSpec& spec, const Allocation& allocation) {
  const uint64_t most = spec.node_memory_bytes;
  const auto grown = uint64_t(double(allocation.memory_bytes) * spec.retry.memory_factor);
  const uint64_t more = most == 0 ? grown : std::min(grown, most);
  return allocation.raise_memory && more > allocation.memory_bytes ? more : 0;
}

/// Asks until there is an answer: as long as no controller is there, none ends us at our limit.
void request_requeue(const Allocation& allocation) {
  const auto end = steady_clock::now() + allocation.controller_patience;
  for (;; std::this_thread::sleep_for(allocation.controller_patience / 180)) {
    try {
      return allocation.requeue(allocation.id);
    } catch (const Error& error) {
      if (!error.retryable() || steady_clock::now() >= end) throw;
    }
  }
}

/// What a job is to have when it runs again.
struct NextPass {
  uint64_t memory_bytes = 0;      ///< on each node; 0: the same
  std::chrono::minutes limit{0};  ///< 0: the same
};

/// Asks for it; SLURM ends us then, if we do not end before. Throws Error.
void request_next(const NextPass& next, const Allocation& allocation) {
  request_requeue(allocation);
  if (next.memory_bytes > 0) allocation.raise_memory(allocation.id, next.memory_bytes);
  if (next.limit.count() > 0 && allocation.raise_time_limit)
    allocation.raise_time_limit(allocation.id, next.limit);
}

void record_refusal(const Attempt& attempt, const Error& error, const Allocation& allocation) {
  JobEvent end;
  end.state = JobState::Failed;
  end.reason = std::string("it cannot be requeued: ") + error.what();
  attempt.record(std::move(end), allocation);
}

std::chrono::minutes limit_of(const JobSpec& spec, std::chrono::seconds walltime) {
  Resources longer = spec.resources;
  longer.walltime = walltime;
  Profile place;
  place.limits.walltime = spec.walltime_limit;
  return time_limit(longer, place);
}

/// Another job has this attempt: we come back when it may have ended.
int come_back(const std::string& work, const Allocation& allocation) {
  std::fprintf(stderr, "job %s: %s is the work of another job; looking again later\n",
               allocation.id.c_str(), work.c_str());
  try {
    request_requeue(allocation);
    return allocation.requeue_status;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kNotRecorded;
  }
}

/// A warning that the walltime is near waits for the supervisor, and kills nothing before it is
/// there. The script (script.h) has it ignored until now.
void hold_warnings() {
  sigset_t warning;
  ::sigemptyset(&warning);
  ::sigaddset(&warning, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &warning, nullptr);
  ::signal(SIGUSR1, SIG_DFL);
}

/// How a pass of an attempt ended, for the job that it is in.
enum class PassEnd {
  Over,        ///< the record says how
  RunsAgain,   ///< the record says so
  NotOurs,     ///< another job has the attempt, or a parent of it
  Stopped,     ///< by SIGTERM
  Lost,        ///< the pass before had no end, and none follows
  Unrecorded,  ///< its end could not be recorded
};

/// What the passes of one job have in common.
struct Together {
  bool is_shared = false;                    ///< several attempts, one after the other
  steady_clock::time_point parents_show;     ///< until then the parents' records may be hidden
  std::function<void(StopCause)> hear = {};  ///< see SupervisorOptions; empty: one attempt
  uint64_t more_memory_bytes = 0;            ///< that a next pass gets; result
};

/// Whether the attempt is to end without having begun: it waits for nothing.
bool is_unwanted(const Attempt& attempt) {
  const JobSpec& spec = attempt.spec();
  return fs::exists(AttemptFiles{attempt.directory()}.cancel_request()) ||
         is_withdrawn(spec.run_directory, spec.job, attempt.number());
}

PassEnd run_pass(Attempt& attempt, Together& together, const Allocation& allocation) {
  if (attempt.state() && is_final(*attempt.state())) return PassEnd::Over;
  const auto claim = newest_claim(attempt.directory());
  if (claim && claim->backend_id != allocation.id) {
    if (allocation.is_at_work(claim->backend_id)) return PassEnd::NotOurs;
    attempt.read();  // it may have ended since
    if (attempt.state() && is_final(*attempt.state())) return PassEnd::Over;
  }
  const int pass = claim ? claim->pass + 1 : 1;
  const bool unended = claim && attempt.state() != JobState::Queued;
  const bool failed =
      unended ? !attempt.has_saved() : attempt.exit().value_or(kExitAgain) != kExitAgain;
  if (unended) {
    // Ours first: a node that was given up may come back, and must not publish any more.
    if (!claim_pass(attempt.directory(), pass, allocation.id)) return PassEnd::NotOurs;
    if (!count_unended_pass(attempt, claim->supervisor.host, allocation)) return PassEnd::Lost;
  }
  if (failed) clear(attempt);
  if (!together.is_shared || !is_unwanted(attempt)) {
    wait_for_parents(attempt.spec(), together.parents_show);
    if (has_parent_at_work(attempt.spec(), together.is_shared, allocation)) return PassEnd::NotOurs;
  }

  SupervisorOptions options;
  options.backend_id = allocation.id;
  options.requeues = true;
  options.hear = together.hear;
  options.memory_kills = allocation.memory_kills;
  options.memory_bytes = allocation.memory_bytes;
  options.own_signals = allocation.own_signals;
  options.more_memory_bytes = more_memory(attempt.spec(), allocation);
  options.walltime = attempt.walltime();
  const int tries = attempt.failed_tries();
  const Supervision how = supervise(attempt.directory(), pass, options);
  if (how == Supervision::NotOurs) return PassEnd::NotOurs;
  if (how == Supervision::Unrecorded) return PassEnd::Unrecorded;
  attempt.read();
  if (attempt.was_stopped()) return PassEnd::Stopped;
  if (attempt.state() != JobState::Queued) return PassEnd::Over;
  if (attempt.failed_tries() > tries && attempt.wants_more_memory()) {
    together.more_memory_bytes = std::max(together.more_memory_bytes, options.more_memory_bytes);
  }
  return PassEnd::RunsAgain;
}

int run_one(BatchTask task, const Allocation& allocation) {
  Attempt attempt(std::move(task.spec), task.attempt);
  Together alone{.parents_show = steady_clock::now() + allocation.patience};
  switch (run_pass(attempt, alone, allocation)) {
    case PassEnd::Over:
    case PassEnd::Stopped:
      return exit_status(attempt, allocation);
    case PassEnd::NotOurs:
      return come_back(attempt.directory(), allocation);
    case PassEnd::Lost:
    case PassEnd::Unrecorded:
      return kNotRecorded;
    case PassEnd::RunsAgain:
      break;
  }
  try {
    NextPass next{.memory_bytes = alone.more_memory_bytes};
    if (attempt.wants_more_time()) next.limit = limit_of(attempt.spec(), attempt.walltime());
    request_next(next, allocation);
    return allocation.requeue_status;
  } catch (const Error& error) {
    record_refusal(attempt, error, allocation);
    return 1;
  }
}

/// A task that several elements share: it runs one after the other, each as its own attempt with
/// its own record. What has an end is passed over, so that the task goes on where an earlier pass
/// stopped; what fails stops nobody else. An element that is to run again waits until the others
/// had their turn: then the task has itself requeued for all that is left.
///
/// SIGTERM is for the task: the one at work is told, and none begins after it. SIGUSR1 says that
/// the time limit is near: the one at work saves if it can, and the rest waits for the next pass.
/// The task ends with 0 if each has an end on record, whatever that is: what waits for one of them
/// looks itself.
class SharedTask {
 public:
  SharedTask(std::vector<BatchTask> tasks, const Allocation& allocation)
      : tasks_(std::move(tasks)), allocation_(allocation) {
    together_ = {.is_shared = true,
                 .parents_show = steady_clock::now() + allocation.patience,
                 .hear = [this](StopCause cause) { hear(cause); }};
  }

  int run() {
    StopSignals between(0, {.is_requested = [] { return false; }, .hear = together_.hear});
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (has_begun_) between.read(0ms);
      if (is_terminated_ || (is_warned_ && has_begun_)) {
        num_left_ = tasks_.size() - i;
        break;
      }
      run(tasks_[i]);
      if (is_stopped_) break;
    }
    if (is_unrecorded_) return kNotRecorded;
    const bool is_done = again_.empty() && num_left_ == 0 && work_of_others_.empty();
    if (is_stopped_ || (is_terminated_ && !is_done))
      return allocation_.reserves_statuses ? kNotRecorded : kStopped;
    return is_done ? 0 : requeue();
  }

 private:
  void hear(StopCause cause) {
    is_terminated_ |= cause == StopCause::Terminated;
    is_warned_ |= cause == StopCause::Walltime;
  }

  /// Whether no other attempt has taken its place.
  static bool is_newest(const BatchTask& task) {
    const std::vector<int> numbers = attempts(task.spec.job_directory);
    return numbers.empty() || numbers.back() <= task.attempt;
  }

  void run(const BatchTask& task) {
    if (!is_newest(task)) return;
    Attempt attempt(task.spec, task.attempt);
    const bool is_over = attempt.state() && is_final(*attempt.state());
    const PassEnd end = run_pass(attempt, together_, allocation_);
    has_begun_ |= !is_over;
    switch (end) {
      case PassEnd::Over:
      case PassEnd::Lost:
        break;
      case PassEnd::RunsAgain:
        again_.push_back(std::move(attempt));
        break;
      case PassEnd::NotOurs:
        work_of_others_ = attempt.directory();
        break;
      case PassEnd::Stopped:
        is_stopped_ = true;
        break;
      case PassEnd::Unrecorded:
        is_unrecorded_ |= is_newest(task);  // else another attempt has taken over
        is_stopped_ |= is_unrecorded_;
        break;
    }
  }

  int requeue() {
    if (again_.empty() && num_left_ == 0) return come_back(work_of_others_, allocation_);
    try {
      request_next({together_.more_memory_bytes, limit()}, allocation_);
      return allocation_.requeue_status;
    } catch (const Error& error) {
      for (const Attempt& attempt : again_) record_refusal(attempt, error, allocation_);
      return 1;
    }
  }

  /// Of the next pass, if an element needs more time in it; never less than that of the first.
  std::chrono::minutes limit() const {
    std::chrono::seconds more(0);
    for (const Attempt& attempt : again_) {
      if (attempt.wants_more_time()) more += attempt.walltime() - attempt.spec().resources.walltime;
    }
    if (more.count() <= 0) return std::chrono::minutes(0);
    const JobSpec& first = tasks_.front().spec;
    return limit_of(first, packed(first.resources, tasks_.size()).walltime + more);
  }

  const std::vector<BatchTask> tasks_;
  const Allocation& allocation_;
  Together together_;
  std::vector<Attempt> again_;  // have another pass
  size_t num_left_ = 0;         // had no turn
  std::string work_of_others_;  // the folder of an attempt that another job has
  bool has_begun_ = false;      // one of them has, in this pass
  bool is_terminated_ = false;  // SIGTERM came
  bool is_warned_ = false;      // SIGUSR1 came
  bool is_stopped_ = false;
  bool is_unrecorded_ = false;
};

}  // namespace

int job_exec(const fs::path& batch_file, uint32_t batch, uint32_t task,
             const Allocation& allocation) {
  hold_warnings();
  std::vector<BatchTask> tasks = attempts_of_task(batch_file, batch, task);
  if (tasks.size() == 1) return run_one(std::move(tasks.front()), allocation);
  return SharedTask(std::move(tasks), allocation).run();
}

}  // namespace dlflow
