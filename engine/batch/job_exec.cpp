#include "engine/batch/job_exec.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/batch/allocation.h"
#include "engine/batch/attempt.h"
#include "engine/batch/batch.h"
#include "engine/batch/batch_file.h"
#include "engine/batch/pass.h"
#include "engine/decide/needed_inputs.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Asks until there is an answer: without a controller nothing ends the job at its limit.
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

/// Memory and time of a task that runs again.
struct NextPass {
  uint64_t memory_bytes = 0;      ///< on each node; 0: the same
  std::chrono::minutes limit{0};  ///< 0: the same
};

/// The time limit of a task whose program may take `walltime`.
std::chrono::minutes limit_of(const JobSpec& spec, std::chrono::seconds walltime) {
  Resources longer = spec.resources;
  longer.walltime = walltime;
  Profile place;
  place.limits.walltime = spec.walltime_limit;
  return time_limit(longer, place);
}

/// Asks for another pass of a task, for the sake of `unfinished`. The batch system then ends this
/// process, unless it ends before. If it refuses, they have failed. Returns the exit status.
int go_on_later(const NextPass& next, std::span<const Attempt> unfinished,
                const Allocation& allocation) {
  try {
    request_requeue(allocation);
    if (next.memory_bytes > 0) allocation.raise_memory(allocation.id, next.memory_bytes);
    if (next.limit.count() > 0 && allocation.raise_time_limit)
      allocation.raise_time_limit(allocation.id, next.limit);
    return allocation.requeue_status;
  } catch (const Error& error) {
    for (const Attempt& attempt : unfinished) {
      attempt.record({.state = JobState::Failed,
                      .reason = std::string("it cannot be requeued: ") + error.what()},
                     allocation);
    }
    return 1;
  }
}

/// Another job has the attempt in `work`: requeues this one for the time when that may have ended.
/// Returns this one's exit status.
int come_back(const std::string& work, const Allocation& allocation) {
  std::fprintf(stderr, "job %s: another job is working on %s; this job checks again later\n",
               allocation.id.c_str(), work.c_str());
  try {
    request_requeue(allocation);
    return allocation.requeue_status;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kNotRecorded;
  }
}

/// Whether no later attempt has replaced it.
bool is_newest(const BatchTask& task) {
  const std::vector<int> numbers = attempts(task.spec.job_directory);
  return numbers.empty() || numbers.back() <= task.attempt;
}

/// A task that several elements share: it runs them one after the other, each as its own attempt
/// with its own record. Elements with an end are passed over, so that the task continues where an
/// earlier pass stopped; a failure stops no other element. An element that is to run again waits
/// until the others had their turn: then the task has itself requeued for the rest.
///
/// SIGTERM is for the whole task: it is passed to the running element, and none begins after it.
/// SIGUSR1 means that the time limit is near: the running element saves if it can, and the rest
/// waits for the next pass. The task ends with 0 if each element has an end on record, of any kind:
/// dependents look at the records.
class SharedTask {
 public:
  /// `allocation` outlives it. `tasks` has the elements in their order.
  SharedTask(std::vector<BatchTask> tasks, const Allocation& allocation)
      : tasks_(std::move(tasks)), allocation_(allocation) {
    passes_ = {.is_shared = true,
               .parents_show = steady_clock::now() + allocation.patience,
               .hear = [this](StopCause cause) { hear(cause); }};
  }

  /// Runs the elements that have no end yet. Returns the exit status for the batch system.
  int run() {
    StopSignals between(0, {.is_requested = [] { return false; }, .hear = passes_.hear});
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (has_begun_) between.read(0ms);
      if (is_terminated_ || (is_warned_ && has_begun_)) {
        num_left_ = tasks_.size() - i;
        break;
      }
      run_element(tasks_[i]);
      if (is_stopped_) break;
    }
    if (is_unrecorded_) return kNotRecorded;
    const bool is_done = again_.empty() && num_left_ == 0 && work_of_others_.empty();
    if (is_stopped_ || (is_terminated_ && !is_done)) return stopped_status(allocation_);
    return is_done ? 0 : requeue();
  }

 private:
  void hear(StopCause cause) {
    is_terminated_ |= cause == StopCause::Terminated;
    is_warned_ |= cause == StopCause::Walltime;
  }

  void run_element(const BatchTask& task) {
    if (!is_newest(task)) return;
    Attempt attempt(task.spec, task.attempt);
    const bool is_over = attempt.has_ended();
    const PassEnd end = run_pass(attempt, passes_, allocation_);
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
    return go_on_later({passes_.more_memory_bytes, limit()}, again_, allocation_);
  }

  /// The time limit of the next pass, if an element needs more time; never below the first one.
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
  TaskPasses passes_;
  std::vector<Attempt> again_;  // have another pass
  size_t num_left_ = 0;         // had no turn
  std::string work_of_others_;  // the folder of an attempt that another job has
  bool has_begun_ = false;      // one of them has, in this pass
  bool is_terminated_ = false;  // SIGTERM came
  bool is_warned_ = false;      // SIGUSR1 came
  bool is_stopped_ = false;
  bool is_unrecorded_ = false;
};

/// The exit status for the batch system of a job with such a record.
int exit_status(const Attempt& attempt, const Allocation& allocation) {
  if (attempt.was_stopped()) return stopped_status(allocation);
  const auto state = attempt.state();
  if (!state) return kNotRecorded;
  // Otherwise jobs that wait for the task of an array would never start. They look themselves.
  if (lets_run(*state, attempt.spec().allow_failure, false)) return 0;
  return allocation.reserves_statuses ? 1 : std::max(1, attempt.exit().value_or(1));
}

/// Blocks the warning that the walltime is near until the supervisor handles it, so that it kills
/// nothing before. The script (script.h) has ignored it until now.
void hold_warnings() {
  sigset_t warning;
  ::sigemptyset(&warning);
  ::sigaddset(&warning, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &warning, nullptr);
  ::signal(SIGUSR1, SIG_DFL);
}

int run_one(BatchTask task, const Allocation& allocation) {
  Attempt attempt(std::move(task.spec), task.attempt);
  TaskPasses alone{.parents_show = steady_clock::now() + allocation.patience};
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
  NextPass next{.memory_bytes = alone.more_memory_bytes};
  if (attempt.wants_more_time()) next.limit = limit_of(attempt.spec(), attempt.walltime());
  return go_on_later(next, {&attempt, 1}, allocation);
}

}  // namespace

int job_exec(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task,
             const Allocation& allocation) {
  hold_warnings();
  std::vector<BatchTask> tasks = attempts_of_task(batch_file, batch, task);
  if (tasks.size() == 1) return run_one(std::move(tasks.front()), allocation);
  return SharedTask(std::move(tasks), allocation).run();
}

}  // namespace dlflow
