#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/plan/job.h"
#include "engine/store/database.h"
#include "engine/store/run_status.h"

/// The tables `jobs`, `events` and `counts` as values. Used by Store only.
namespace dlflow {

/// The present state of one job, folded from its events: a row of `jobs`.
struct JobRecord : JobCourse {
  Fingerprint fingerprint;
  Json outputs;
  Json metrics;
  std::string reused_from;

  bool operator==(const JobRecord&) const = default;
};

/// Applies `event` to `record`. Ignores a late event (of an earlier attempt, or not a legal
/// transition); the first event of a new attempt is always legal.
void apply(JobRecord& record, const JobEvent& event);

/// A JobRecord with the data of its plan.
struct StoredJob {
  uint32_t number = 0;
  JobName name;
  int64_t num_events = 0;
  bool may_fail = false;
  bool is_open = false;  ///< see JobRow
  JobRecord record;
};

/// Null if the column is. Throws Error{Corrupt} unless it is JSON within the limits.
Json json_at(const Statement& row, int column);
std::optional<Time> time_at(const Statement& row, int column);

/// The query of load_job() by run and job name. It runs for each job with news, so it must not scan
/// a table.
std::string select_job();

/// Throws Error{NotFound}.
StoredJob load_job(Database& database, int64_t run, const JobName& name);
/// All jobs of a run, in plan order.
std::vector<StoredJob> load_jobs(Database& database, int64_t run);
void save_job(Database& database, int64_t run, const StoredJob& job);

/// SQL on a row of `jobs`: whether its program may have run, also if the job's record was not read
/// since its submission.
inline constexpr std::string_view kMayHaveBegun =
    "jobs.attempt > 0 AND (jobs.started_ms IS NOT NULL OR jobs.attempt > 1 "
    "OR jobs.state IN ('submitting', 'queued', 'lost')) ";
/// SQL on the same row joined with `runs`: the earliest time at which it may have run.
inline constexpr std::string_view kBegan =
    "coalesce(CASE WHEN jobs.attempt = 1 THEN jobs.started_ms END, runs.started_ms) ";

/// A row of `events`.
struct StoredEvent {
  int attempt = 0;
  std::string state;  ///< empty: a note
  int64_t at_ms = 0;
  std::string detail;  ///< JSON of all other members; empty if there are none
  auto operator<=>(const StoredEvent&) const = default;
};

StoredEvent to_row(const JobEvent& event);
/// The result does not have the job's name.
JobEvent from_row(const StoredEvent& row);

std::vector<StoredEvent> load_events(Database& database, int64_t run, uint32_t job);
void append_event(Database& database, int64_t run, uint32_t job, int64_t number,
                  const StoredEvent& row);

/// The number of jobs of a run in each state.
using Counts = std::map<JobState, size_t>;
Counts load_counts(Database& database, int64_t run);
/// The same without allowed failures.
Counts counts_that_matter(Database& database, int64_t run);

/// See Store::settle_run_state.
RunState settled_state(const Counts& counts);

}  // namespace dlflow
