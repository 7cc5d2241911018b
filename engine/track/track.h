#pragma once

#include <chrono>

#include "engine/report/report_data.h"

/// `track:` of a workflow: what a run reported, for programs of others that show such things.
///
/// Jobs write to their own metrics.jsonl alone. What trackers read is made from those, by whoever
/// looks at the run on the login node: no job needs a network, no two nodes write to one database
/// over a network file system, and a tracker that cannot be reached fails no job.
namespace dlflow {

/// Brings RUN/tensorboard, RUN/wandb, the MLflow store and the OpenMetrics file that the workflow
/// asks for up to date. Idempotent; one process at a time does it for a run, and another one that
/// comes meanwhile does nothing. Throws Error, after the others have been served, if one cannot be.
/// \param patience  for a server or a database that does not answer; what was given to it stays.
void track(const ReportedRun& run, Time now,
           std::chrono::milliseconds patience = std::chrono::hours(1));

}  // namespace dlflow
