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

/// Descriptions of jobs by a batch system + their records -> events to be recorded. Pure.
namespace dlflow {

/// A job that is queued or running by its record, or that was given up as lost: it may reappear.
struct OpenJob {
  JobName job;
  int attempt = 1;
  JobState state = JobState::Queued;
  JobIdentity identity;
  uint64_t memory_bytes = 0;  ///< requested; 0: none
  bool shares_task = false;   ///< with other jobs; while it is queued it has not had its turn
};

/// Ids of the jobs that the queue does not show, without the lost ones: for sacct.
std::vector<std::string> ids_to_ask_for(std::span<const OpenJob> open,
                                        std::span<const BatchJob> queue);

/// The jobs that neither shows, again without the lost ones: for the controller itself. An empty
/// answer proves nothing: it may come from a broken wrapper, or from another cluster's tools.
std::vector<JobIdentity> jobs_nobody_knows(std::span<const OpenJob> open,
                                           std::span<const BatchJob> queue,
                                           std::span<const BatchJob> accounting);

struct Observation {
  std::vector<JobEvent> events;  ///< ends that only the batch system knows, for RUN/events.jsonl
  std::map<JobName, BatchJob> at_work;  ///< by job's name: waiting and running jobs
};

/// Another user's or run's job with one of our numbers (JobIdentity) is ignored. A supervisor's
/// record has priority over the batch system. It may show a little later on a network file system:
/// jobs that the batch system calls completed or failed, and jobs that shared a task, are given up
/// only `kRecordPatience` after the end. A job that the queue has forgotten and that waits or runs
/// by the accounting has ended somehow: it stays as it is until accounting has its end, or does not
/// know it either.
///
/// \param accounting  the answer of sacct about ids_to_ask_for().
/// \param gone        ids that the controller denies, and that accounting does not have either:
/// they
///                    have vanished.
/// \param system      the name of the batch system in messages.
Observation observe(std::span<const OpenJob> open, std::span<const BatchJob> queue,
                    std::span<const BatchJob> accounting, const std::set<std::string>& gone,
                    Time now, std::string_view system);

inline constexpr std::chrono::seconds kRecordPatience{60};

}  // namespace dlflow
