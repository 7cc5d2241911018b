#include "engine/batch/observe.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "base/units.h"

namespace dlflow {
namespace {

/// A reused number may occur twice.
using ById = std::multimap<std::string_view, const BatchJob*>;

ById by_id(std::span<const BatchJob> jobs) {
  ById map;
  for (const BatchJob& job : jobs) map.emplace(job.id, &job);
  return map;
}

const BatchJob* find(const ById& jobs, const JobIdentity& ours) {
  const auto [first, last] = jobs.equal_range(ours.id);
  const auto found =
      std::find_if(first, last, [&](const auto& job) { return ours.is(*job.second); });
  return found == last ? nullptr : found->second;
}

/// `dlflow cancel` sends SIGINT, or SIGUSR2 on Grid Engine. A shell that has not become job-exec
/// yet dies of it, and no record will follow.
bool was_stopped_at_its_start(const BatchJob& job) {
  return job.state == BatchState::Failed && (job.signal == SIGINT || job.signal == SIGUSR2);
}

/// Whether accounting may still name who took a job from its node: the queue does not, and shows an
/// end first.
bool may_yet_be_named(const BatchJob& job, Time now) {
  constexpr std::chrono::seconds kAccountingDelay(15);
  return job.state == BatchState::Cancelled && job.cancelled_by.empty() && !job.node.empty() &&
         job.end && now < *job.end + kAccountingDelay;
}

/// Whether the record of an end may exist and show later. When a shared task ends, elements that
/// had their turn may have ended before.
bool may_yet_show(const OpenJob& open, const BatchJob& job, Time now) {
  const bool may_be_there =
      open.shares_task || job.state == BatchState::Failed || job.state == BatchState::Completed;
  return may_be_there && job.end && now < *job.end + kRecordPatience;
}

/// SLURM, as root, takes a job from a node that could not start it, mostly because its prolog
/// failed; no signal has ended such a job. Cancelling a running job ends it by a signal.
bool was_not_started(const OpenJob& open, const BatchJob& job) {
  const bool by_root = job.cancelled_by == "root" || job.cancelled_by == "0";
  return job.state == BatchState::Cancelled && by_root && !job.node.empty() && job.signal == 0 &&
         open.state == JobState::Queued;
}

/// The state that an end without a record means. Nothing if the record may still show.
std::optional<JobState> verdict(const OpenJob& open, const BatchJob& job, Time now) {
  if (was_stopped_at_its_start(job)) return JobState::Cancelled;
  if (may_yet_show(open, job, now) || may_yet_be_named(job, now)) return std::nullopt;
  if (was_not_started(open, job)) return JobState::Lost;
  switch (job.state) {
    case BatchState::Timeout:
    case BatchState::Deadline:
      return JobState::TimedOut;
    case BatchState::Cancelled:
    case BatchState::Revoked:
      return JobState::Cancelled;
    case BatchState::NodeFail:
    case BatchState::BootFail:
    case BatchState::Preempted:
    case BatchState::Completed:
      return JobState::Lost;
    case BatchState::OutOfMemory:
    case BatchState::Failed:
      return JobState::Failed;
    case BatchState::Pending:
    case BatchState::Configuring:
    case BatchState::Running:
    case BatchState::Suspended:
    case BatchState::Completing:
    case BatchState::Requeued:
    case BatchState::Held:
    case BatchState::Unknown:
      break;
  }
  return std::nullopt;
}

JobEvent event(const OpenJob& open, JobState state, std::string reason, Time now) {
  return {.job = open.job,
          .attempt = open.attempt,
          .state = state,
          .at = now,
          .backend_id = open.identity.id,
          .reason = std::move(reason)};
}

/// Without cgroups SLURM kills a job that takes too much memory, and reports only the kill.
bool wanted_memory(const OpenJob& open, const BatchJob& job) {
  constexpr int kKilled = 9;
  const bool too_much = open.memory_bytes > 0 && job.max_memory_bytes > open.memory_bytes;
  return job.state == BatchState::OutOfMemory ||
         (job.state == BatchState::Failed && job.signal == kKilled && too_much);
}

/// If there are several, the failed one is unknown.
bool is_one_node(const std::string& list) {
  return !list.empty() && list.find_first_of("[,+ ") == list.npos;
}

JobEvent end_of(const OpenJob& open, const BatchJob& job, JobState state, Time now) {
  std::string reason = job.state == BatchState::Completed
                           ? "it completed, but there is no record of its end"
                           : ending_in_words(job);
  if (was_stopped_at_its_start(job)) reason = "stopped before it began";
  if (was_not_started(open, job)) {
    reason = "node " + job.node + " could not start it, usually because its prolog failed";
  }
  if (wanted_memory(open, job)) {
    reason = std::string(words(BatchState::OutOfMemory));
    if (open.memory_bytes > 0) reason += ", asked for " + format_size(open.memory_bytes);
  }
  const bool had_no_turn = open.shares_task && open.state == JobState::Queued &&
                           (state != JobState::Cancelled || was_stopped_at_its_start(job));
  if (had_no_turn) {
    JobEvent lost = event(
        open, JobState::Lost,
        "job " + open.identity.id + " ended before it could start this element: " + reason, now);
    lost.preempted = job.state == BatchState::Preempted;
    return lost;
  }
  JobEvent end = event(open, state, std::move(reason), now);
  if (state == JobState::Failed || state == JobState::TimedOut) end.exit = job.exit;
  end.node = job.node;
  const bool node_failed = job.state == BatchState::NodeFail || job.state == BatchState::BootFail ||
                           job.log_refused || was_not_started(open, job);
  if (node_failed && is_one_node(job.node)) end.failed_node = job.node;
  end.preempted = job.state == BatchState::Preempted;
  return end;
}

}  // namespace

std::vector<std::string> ids_to_ask_for(std::span<const OpenJob> open,
                                        std::span<const BatchJob> queue) {
  const ById known = by_id(queue);
  std::vector<std::string> ids;
  for (const OpenJob& job : open) {
    const BatchJob* const queued = find(known, job.identity);
    // The queue shows neither who ended a job nor its exit status.
    if (job.state == JobState::Lost) continue;
    if (queued == nullptr || is_over(queued->state)) ids.push_back(job.identity.id);
  }
  return ids;
}

std::vector<JobIdentity> jobs_nobody_knows(std::span<const OpenJob> open,
                                           std::span<const BatchJob> queue,
                                           std::span<const BatchJob> accounting) {
  const ById queued = by_id(queue);
  const ById accounted = by_id(accounting);
  std::vector<JobIdentity> unknown;
  for (const OpenJob& job : open) {
    const bool known =
        find(queued, job.identity) != nullptr || find(accounted, job.identity) != nullptr;
    if (job.state != JobState::Lost && !known) unknown.push_back(job.identity);
  }
  return unknown;
}

Observation observe(std::span<const OpenJob> open, std::span<const BatchJob> queue,
                    std::span<const BatchJob> accounting, const std::set<std::string>& gone,
                    Time now, std::string_view system) {
  const ById queued = by_id(queue);
  const ById accounted = by_id(accounting);
  Observation result;
  for (const OpenJob& job : open) {
    const BatchJob* const in_queue = find(queued, job.identity);
    if (in_queue != nullptr && !is_over(in_queue->state)) {
      result.at_work[job.job] = *in_queue;
      continue;
    }
    const BatchJob* known = find(accounted, job.identity);
    if (known == nullptr || (in_queue != nullptr && !is_over(known->state))) known = in_queue;
    if (known != nullptr) {
      if (const auto state = verdict(job, *known, now)) {
        result.events.push_back(end_of(job, *known, *state, now));
      }
    } else if (gone.contains(job.identity.id)) {
      result.events.push_back(event(job, JobState::Lost,
                                    std::string(system) + " no longer lists job " +
                                        job.identity.id + ", and there is no record of its end",
                                    now));
    }
  }
  return result;
}

}  // namespace dlflow
