#include "engine/batch/pass.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/exit_status.h"
#include "base/remove_tree.h"
#include "engine/decide/retry.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/withdrawn.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/parents.h"
#include "engine/supervisor/supervisor.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

/// The pass before this one left no end, but has ended: records its end. Returns whether the job
/// continues.
/// \param node  of that pass; batch systems know it without its domain
bool count_unended_pass(const Attempt& attempt, const std::string& node,
                        const Allocation& allocation) {
  if (attempt.has_saved()) {  // preempted, most likely: no failure, and no work is lost
    attempt.record({.state = JobState::Queued,
                    .exit = kExitAgain,
                    .reason = "preempted; continues from its checkpoint",
                    .failed_tries = attempt.failed_tries()},
                   allocation);
    return true;
  }
  const std::optional<std::string> lost_node = attempt.lost_node();
  JobEvent lost{.state = JobState::Lost, .failed_node = lost_node.value_or("")};
  // The node of a failed job gets no signal, but SLURM sends one to the others of that job.
  lost.preempted = attempt.was_stopped() && !lost_node;
  lost.reason = lost.preempted             ? "it was preempted"
                : lost.failed_node.empty() ? "its node failed"
                                           : "node " + lost.failed_node + " failed";
  if (!lost.preempted && lost.failed_node.empty() && attempt.spec().resources.ranks == 1) {
    lost.failed_node = node.substr(0, node.find('.'));
  }
  lost.failed_tries = attempt.failed_tries();
  const int tries = attempt.failed_tries() + 1;
  const Retry& retry = attempt.spec().retry;
  const bool again = should_retry(retry, lost, tries);
  if (again) {
    lost.state = JobState::Queued;
    lost.reason = next_try_in_words(retry, tries, lost.reason);
    lost.failed_tries = tries;
    lost.preempted = false;
  }
  attempt.record(std::move(lost), allocation);
  return again;
}

/// Waits until the records of the parents show here, or until `end`. The supervisor judges their
/// content.
void wait_for_parents(const JobSpec& spec, steady_clock::time_point end) {
  while (steady_clock::now() < end && !have_ended(spec.parents)) {
    std::this_thread::sleep_for(std::min<steady_clock::duration>(end - steady_clock::now(), 500ms));
  }
}

/// The job of the batch system that has `claim`, of a job of the same run.
JobIdentity owner_of(const Claim& claim, const JobSpec& spec) {
  return {.id = claim.backend_id, .name_begin = spec.run + ".", .name_end = ""};
}

/// Whether the supervisor of a pass without an end on record renews its claim, which takes a while
/// to see. A claim that was not renewed for long belongs to a dead one.
bool is_renewed(const fs::path& attempt, const Claim& claim, const Allocation& allocation) {
  const auto first = last_renewal(attempt, claim.pass);
  for (auto last = first; last && SystemClock().now() - *last < allocation.patience;
       last = last_renewal(attempt, claim.pass)) {
    if (*last > *first) return true;
    std::this_thread::sleep_for(500ms);
  }
  return false;
}

/// Whether an earlier attempt is at work, though this one was submitted: the batch system may have
/// reported its end too early.
bool has_predecessor_at_work(const Attempt& attempt, const Allocation& allocation) {
  const fs::path& job = attempt.spec().job_directory;
  const std::vector<int> numbers = attempts(job);
  return std::any_of(numbers.begin(), numbers.end(), [&](int number) {
    const fs::path before = attempt_directory(job, number);
    const auto claim = number < attempt.number() ? newest_claim(before) : std::nullopt;
    if (!claim || claim->backend_id.empty() || claim->backend_id == allocation.id) return false;
    const auto last = last_state(job, "", number);
    if (last && (is_final(*last->state) || last->state == JobState::Queued)) return false;
    return allocation.is_at_work(owner_of(*claim, attempt.spec())) ||
           is_renewed(before, *claim, allocation);
  });
}

/// Whether a parent that may end without success has no end on record and is still at work
/// according to the batch system: that let this job start too early, as after a requeue. In a
/// shared task this may be any parent, since the task waits only for the end of parents that not
/// all elements need.
bool has_parent_at_work(const JobSpec& spec, bool is_shared, const Allocation& allocation) {
  return std::any_of(spec.parents.begin(), spec.parents.end(), [&](const ParentRef& parent) {
    const bool may_lack =
        (is_shared || spec.always || parent.may_fail) && !parent.failed && !parent.skipped;
    if (!may_lack || have_ended({parent})) return false;
    const std::vector<int> numbers = attempts(parent.directory);
    if (numbers.empty()) return false;
    const auto claim = newest_claim(attempt_directory(parent.directory, numbers.back()));
    return claim && allocation.is_at_work(owner_of(*claim, spec));
  });
}

/// Removes the files of failed passes; a checkpoint is kept. A pass that still writes, on a node
/// that was given up, keeps its folder.
void clear(const Attempt& attempt) {
  fs::remove(attempt.directory() / "metrics.jsonl");
  for (const auto& entry : fs::directory_iterator(attempt.directory())) {
    std::error_code in_use;
    if (entry.path().filename().string().starts_with("pass-")) remove_tree(entry.path(), in_use);
  }
}

/// The memory of the next try if this one runs out of memory: more by the step's factor, up to a
/// node's. 0: no more.
uint64_t more_memory(const JobSpec& spec, const Allocation& allocation) {
  const uint64_t most = spec.node_memory_bytes;
  const auto grown = uint64_t(double(allocation.memory_bytes) * spec.retry.memory_factor);
  const uint64_t more = most == 0 ? grown : std::min(grown, most);
  return allocation.raise_memory && more > allocation.memory_bytes ? more : 0;
}

/// Whether the attempt should end without having begun; then it waits for nothing.
bool is_unwanted(const Attempt& attempt) {
  const JobSpec& spec = attempt.spec();
  return fs::exists(AttemptFiles{attempt.directory()}.cancel_request()) ||
         is_withdrawn(spec.run_directory, spec.job, attempt.number());
}

/// The end if another job has the attempt, or ended it.
std::optional<PassEnd> end_by_others(Attempt& attempt, const std::optional<Claim>& claim,
                                     const Allocation& allocation) {
  if (!claim || claim->backend_id == allocation.id) return std::nullopt;
  if (allocation.is_at_work(owner_of(*claim, attempt.spec()))) return PassEnd::NotOurs;
  attempt.read();  // it may have ended since
  return attempt.has_ended() ? std::optional(PassEnd::Over) : std::nullopt;
}

/// Records a pass that left no end, and removes the files of a failed one. Returns the end if
/// `pass` does not follow.
std::optional<PassEnd> settle_pass_before(Attempt& attempt, const std::optional<Claim>& claim,
                                          int pass, const Allocation& allocation) {
  const bool unended = claim && attempt.state() != JobState::Queued;
  const bool failed =
      unended ? !attempt.has_saved() : attempt.exit().value_or(kExitAgain) != kExitAgain;
  if (unended) {
    // Claim first: a node that was given up may come back, and must not publish any more.
    if (!claim_pass(attempt.directory(), pass, allocation.id)) return PassEnd::NotOurs;
    if (!count_unended_pass(attempt, claim->supervisor.host, allocation)) return PassEnd::Lost;
  }
  if (failed) clear(attempt);
  return std::nullopt;
}

/// Whether an earlier attempt is still at work, or a parent is again, once all records should show.
bool waits_for_others(const Attempt& attempt, const TaskPasses& task,
                      const Allocation& allocation) {
  if (is_unwanted(attempt)) return false;
  if (has_predecessor_at_work(attempt, allocation)) return true;
  wait_for_parents(attempt.spec(), task.parents_show);
  return has_parent_at_work(attempt.spec(), task.is_shared, allocation);
}

SupervisorOptions options_of(const Attempt& attempt, const TaskPasses& task,
                             const Allocation& allocation) {
  SupervisorOptions options;
  options.backend_id = allocation.id;
  options.requeues = true;
  options.hear = task.hear;
  options.memory_kills = allocation.memory_kills;
  options.memory_bytes = allocation.memory_bytes;
  options.own_signals = allocation.own_signals;
  options.more_memory_bytes = more_memory(attempt.spec(), allocation);
  options.walltime = attempt.walltime();
  return options;
}

}  // namespace

PassEnd run_pass(Attempt& attempt, TaskPasses& task, const Allocation& allocation) {
  if (attempt.has_ended()) return PassEnd::Over;
  const auto claim = newest_claim(attempt.directory());
  if (const auto end = end_by_others(attempt, claim, allocation)) return *end;
  const int pass = claim ? claim->pass + 1 : 1;
  if (const auto end = settle_pass_before(attempt, claim, pass, allocation)) return *end;
  if (waits_for_others(attempt, task, allocation)) return PassEnd::NotOurs;

  const SupervisorOptions options = options_of(attempt, task, allocation);
  const int tries = attempt.failed_tries();
  const Supervision how = supervise(attempt.directory(), pass, options);
  if (how == Supervision::NotOurs) return PassEnd::NotOurs;
  if (how == Supervision::Unrecorded) return PassEnd::Unrecorded;
  attempt.read();
  if (attempt.was_stopped()) return PassEnd::Stopped;
  if (attempt.state() != JobState::Queued) return PassEnd::Over;
  if (attempt.failed_tries() > tries && wants_more_memory(attempt.spec().retry, attempt.exit())) {
    task.more_memory_bytes = std::max(task.more_memory_bytes, options.more_memory_bytes);
  }
  return PassEnd::RunsAgain;
}

}  // namespace dlflow
