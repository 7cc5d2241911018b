#include "engine/plan/job.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "planned",   "submitting", "queued", "running", "succeeded", "failed",
    "timed-out", "cancelled",  "lost",   "cached",  "blocked",   "skipped"};

using States = uint32_t;

constexpr States set_of(std::initializer_list<JobState> states) {
  States set = 0;
  for (const JobState state : states) set |= States{1} << unsigned(state);
  return set;
}

/// The legal next states of each state, in the order of the enumeration. The same table is in
/// docs/contributor/reference.md.
constexpr std::array<States, kNames.size()> kNext = [] {
  using enum JobState;
  std::array<States, kNames.size()> next{};
  next[size_t(Planned)] = set_of({Submitting, Cached, Blocked, Skipped, Cancelled});
  // Submitting again: the engine was killed before it got an answer. Running: the supervisor was
  // faster than the backend's answer. Failed: the backend refused.
  next[size_t(Submitting)] =
      set_of({Submitting, Queued, Running, Failed, Cancelled, Lost, Blocked, Skipped});
  // Blocked, Skipped: the supervisor checked the parents (P3) or evaluated `if:` before it started.
  next[size_t(Queued)] = set_of({Running, Failed, TimedOut, Cancelled, Lost, Blocked, Skipped});
  next[size_t(Running)] = set_of({Succeeded, Failed, TimedOut, Cancelled, Lost, Queued});
  // Succeeded, Cached: the outputs are gone, and a job that must run needs them.
  for (const JobState state : {Succeeded, Cached, Failed, TimedOut, Cancelled, Skipped}) {
    next[size_t(state)] = set_of({Planned});
  }
  // It had succeeded in a shared task before the task was cancelled, but its record appears late.
  next[size_t(Cancelled)] |= set_of({Succeeded});
  // The job was missing for a while: its record appears late, or the cluster has it after all. The
  // same holds for the jobs that wait for it.
  next[size_t(Lost)] =
      set_of({Planned, Queued, Running, Succeeded, Failed, TimedOut, Cancelled, Blocked, Skipped});
  next[size_t(Blocked)] =
      set_of({Planned, Queued, Running, Succeeded, Failed, TimedOut, Cancelled, Lost, Skipped});
  return next;
}();

}  // namespace

std::string_view name(JobState state) { return kNames[size_t(state)]; }

JobState job_state(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return JobState(i);
  }
  throw Error(Errc::Corrupt, "'" + std::string(name) + "' is not a job state");
}

bool may_become(JobState from, JobState to) {
  return (kNext[size_t(from)] >> unsigned(to) & 1) != 0;
}

bool is_final(JobState state) {
  using enum JobState;
  return state != Planned && state != Submitting && state != Queued && state != Running;
}

bool satisfies_dependents(JobState state) {
  return state == JobState::Succeeded || state == JobState::Cached;
}

bool is_failure(JobState state) {
  return state == JobState::Failed || state == JobState::TimedOut || state == JobState::Lost;
}

std::chrono::seconds next_walltime(const Retry& retry, std::chrono::seconds walltime,
                                   std::chrono::seconds limit) {
  const auto grown =
      std::chrono::seconds(int64_t(double(walltime.count()) * retry.walltime_factor));
  return limit.count() > 0 ? std::max(walltime, std::min(grown, limit)) : grown;
}

}  // namespace dlflow
