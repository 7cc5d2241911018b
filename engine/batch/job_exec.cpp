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
#include "engine/supervisor/claim.h"
#include "engine/supervisor/parents.h"
#include "engine/supervisor/supervisor.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kNotRecorded = 1;
constexpr int kStopped = 128 + 15;

/// One attempt of a job, as its earlier passes left it.
class Attempt {
 public:
  Attempt(JobSpec spec, int number)
      : spec_(std::move(spec)), directory_(attempt_directory(spec_.job_directory, number)) {
    make_directories(directory_);
    const fs::path file = directory_ / "job.json";
    if (!fs::exists(file)) write_file_atomic(file, to_json(spec_).dump() + "\n");
    read();
  }

  const JobSpec& spec() const { return spec_; }
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

/// Until the records of the parents are to be seen here, or long enough. What they say is for the
/// supervisor.
void wait_for_parents(const JobSpec& spec, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline && !have_ended(spec.parents)) {
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(patience, 500ms));
  }
}

/// Whether a parent that may end without success has no end on record and is still at work, as far
/// as the batch system knows: that let this job start too early, as after a requeue.
bool has_parent_at_work(const JobSpec& spec, const Allocation& allocation) {
  return std::any_of(spec.parents.begin(), spec.parents.end(), [&](const ParentRef& parent) {
    const bool may_lack = (spec.always || parent.may_fail) && !parent.failed && !parent.skipped;
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
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + allocation.controller_patience;
  for (;; std::this_thread::sleep_for(allocation.controller_patience / 180)) {
    try {
      return allocation.requeue(allocation.id);
    } catch (const Error& error) {
      if (!error.retryable() || steady_clock::now() >= end) throw;
    }
  }
}

/// Asks for the next pass; SLURM ends us then, if we do not end before.
/// \param memory  of the next pass on each node; 0: the same.
int requeue(const Attempt& attempt, const Allocation& allocation, uint64_t memory) {
  try {
    request_requeue(allocation);
    if (memory > 0) allocation.raise_memory(allocation.id, memory);
    if (attempt.wants_more_time() && allocation.raise_time_limit) {
      Resources longer = attempt.spec().resources;
      longer.walltime = attempt.walltime();
      Profile place;
      place.limits.walltime = attempt.spec().walltime_limit;
      allocation.raise_time_limit(allocation.id, time_limit(longer, place));
    }
  } catch (const Error& error) {
    JobEvent end;
    end.state = JobState::Failed;
    end.reason = std::string("it cannot be requeued: ") + error.what();
    attempt.record(std::move(end), allocation);
    return 1;
  }
  return allocation.requeue_status;
}

/// Another job has this attempt: we come back when it may have ended.
int come_back(const Attempt& attempt, const Allocation& allocation) {
  std::fprintf(stderr, "job %s: %s is the work of another job; looking again later\n",
               allocation.id.c_str(), attempt.directory().c_str());
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

}  // namespace

int job_exec(const fs::path& batch_file, uint32_t batch, uint32_t task,
             const Allocation& allocation) {
  hold_warnings();
  BatchTask batch_task = read_batch_task(batch_file, batch, task);
  Attempt attempt(std::move(batch_task.spec), batch_task.attempt);
  if (attempt.state() && is_final(*attempt.state())) return exit_status(attempt, allocation);
  const auto claim = newest_claim(attempt.directory());
  if (claim && claim->backend_id != allocation.id) {
    if (allocation.is_at_work(claim->backend_id)) return come_back(attempt, allocation);
    attempt.read();  // it may have ended since
    if (attempt.state() && is_final(*attempt.state())) return exit_status(attempt, allocation);
  }
  const int pass = claim ? claim->pass + 1 : 1;
  const bool unended = claim && attempt.state() != JobState::Queued;
  const bool failed =
      unended ? !attempt.has_saved() : attempt.exit().value_or(kExitAgain) != kExitAgain;
  if (unended) {
    // Ours first: a node that was given up may come back, and must not publish any more.
    if (!claim_pass(attempt.directory(), pass, allocation.id))
      return come_back(attempt, allocation);
    if (!count_unended_pass(attempt, claim->supervisor.host, allocation)) return 1;
  }
  if (failed) clear(attempt);
  wait_for_parents(attempt.spec(), allocation.patience);
  if (has_parent_at_work(attempt.spec(), allocation)) return come_back(attempt, allocation);

  SupervisorOptions options;
  options.backend_id = allocation.id;
  options.requeues = true;
  options.memory_kills = allocation.memory_kills;
  options.memory_bytes = allocation.memory_bytes;
  options.own_signals = allocation.own_signals;
  options.more_memory_bytes = more_memory(attempt.spec(), allocation);
  options.walltime = attempt.walltime();
  const int tries = attempt.failed_tries();
  const Supervision how = supervise(attempt.directory(), pass, options);
  if (how == Supervision::NotOurs) return come_back(attempt, allocation);
  if (how == Supervision::Unrecorded) return kNotRecorded;
  attempt.read();
  if (!attempt.was_stopped() && attempt.state() == JobState::Queued) {
    const bool more = attempt.failed_tries() > tries && attempt.wants_more_memory();
    return requeue(attempt, allocation, more ? options.more_memory_bytes : 0);
  }
  return exit_status(attempt, allocation);
}

}  // namespace dlflow
