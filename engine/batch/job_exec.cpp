#include "engine/batch/job_exec.h"

#include <signal.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "engine/batch/attempt.h"
#include "engine/batch/batch_file.h"
#include "engine/batch/next_pass.h"
#include "engine/batch/pass.h"
#include "engine/batch/shared_task.h"
#include "engine/plan/needed_inputs.h"

namespace dlflow {
namespace {

using std::chrono::steady_clock;

/// What the batch system is to think of a job whose record ends so.
int exit_status(const Attempt& attempt, const Allocation& allocation) {
  if (attempt.was_stopped()) return stopped_status(allocation);
  const auto state = attempt.state();
  if (!state) return kNotRecorded;
  if (satisfies_dependents(*state) || *state == JobState::Skipped) return 0;
  // Else those that wait for the task of an array would never start. They look themselves.
  if (attempt.spec().allow_failure && is_failure(*state)) return 0;
  return allocation.reserves_statuses ? 1 : std::max(1, attempt.exit().value_or(1));
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

}  // namespace

int job_exec(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task,
             const Allocation& allocation) {
  hold_warnings();
  std::vector<BatchTask> tasks = attempts_of_task(batch_file, batch, task);
  if (tasks.size() == 1) return run_one(std::move(tasks.front()), allocation);
  return SharedTask(std::move(tasks), allocation).run();
}

}  // namespace dlflow
