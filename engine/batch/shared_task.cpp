#include "engine/batch/shared_task.h"

#include "engine/batch/batch.h"
#include "engine/batch/next_pass.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Whether no other attempt has taken its place.
bool is_newest(const BatchTask& task) {
  const std::vector<int> numbers = attempts(task.spec.job_directory);
  return numbers.empty() || numbers.back() <= task.attempt;
}

}  // namespace

SharedTask::SharedTask(std::vector<BatchTask> tasks, const Allocation& allocation)
    : tasks_(std::move(tasks)), allocation_(allocation) {
  passes_ = {.is_shared = true,
             .parents_show = steady_clock::now() + allocation.patience,
             .hear = [this](StopCause cause) { hear(cause); }};
}

int SharedTask::run() {
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

void SharedTask::hear(StopCause cause) {
  is_terminated_ |= cause == StopCause::Terminated;
  is_warned_ |= cause == StopCause::Walltime;
}

void SharedTask::run_element(const BatchTask& task) {
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

int SharedTask::requeue() {
  if (again_.empty() && num_left_ == 0) return come_back(work_of_others_, allocation_);
  try {
    request_next({passes_.more_memory_bytes, limit()}, allocation_);
    return allocation_.requeue_status;
  } catch (const Error& error) {
    for (const Attempt& attempt : again_) record_refusal(attempt, error, allocation_);
    return 1;
  }
}

std::chrono::minutes SharedTask::limit() const {
  std::chrono::seconds more(0);
  for (const Attempt& attempt : again_) {
    if (attempt.wants_more_time()) more += attempt.walltime() - attempt.spec().resources.walltime;
  }
  if (more.count() <= 0) return std::chrono::minutes(0);
  const JobSpec& first = tasks_.front().spec;
  return limit_of(first, packed(first.resources, tasks_.size()).walltime + more);
}

}  // namespace dlflow
