#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/batch/batch_job.h"
#include "engine/plan/job.h"

/// Words of a batch system about jobs + their records -> events that have to be recorded. Pure.
namespace dlflow {

/// A job that is queued or running as far as its record goes, or that was given up as lost: it may
/// turn up again.
struct OpenJob {
  std::string job;
  int attempt = 1;
  JobState state = JobState::Queued;
  JobIdentity identity;
  uint64_t memory_bytes = 0;  ///< that it asked for; 0: not said
  bool shares_task = false;   ///< with other jobs; while it is queued it has not had its turn
};

/// Ids of the jobs, without the lost ones, that the queue does not name: for sacct.
std::vector<std::string> ids_to_ask_for(std::span<const OpenJob> open,
                                        std::span<const BatchJob> queue);

/// The jobs, again without the lost ones, that neither names: for the controller itself. An
/// empty answer proves nothing: it may be a wrapper's that is broken, or that of another cluster's
/// tools.
std::vector<JobIdentity> jobs_nobody_knows(std::span<const OpenJob> open,
                                           std::span<const BatchJob> queue,
                                           std::span<const BatchJob> accounting);

struct Observation {
  std::vector<JobEvent> events;  ///< ends that only the batch system knows, for RUN/events.jsonl
  std::map<std::string, BatchJob> at_work;  ///< by job's name: what waits or runs
};

/// A stranger's job with one of our numbers (JobIdentity) is ignored.
/// A supervisor's record comes before the batch system's word. It may show a little later on a
/// network file system: what the batch system calls completed or failed, and whoever shared a task,
/// is given up only `kRecordPatience` after the end. A job that the queue has forgotten and
/// accounting still takes for waiting or running has ended somehow: nothing is said of it until
/// accounting hears how, or knows nothing of it either.
///
/// \param accounting  what sacct said of ids_to_ask_for().
/// \param gone        ids of which the controller says that there is no such job, and accounting
///                    has nothing to say either: they have vanished.
/// \param system      the name of the batch system, for people.
Observation observe(std::span<const OpenJob> open, std::span<const BatchJob> queue,
                    std::span<const BatchJob> accounting, const std::set<std::string>& gone,
                    Time now, std::string_view system);

inline constexpr std::chrono::seconds kRecordPatience{60};

}  // namespace dlflow
