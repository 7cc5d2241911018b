#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/report/report_data.h"
#include "engine/track/mlflow.h"

/// `track:` of a workflow: what a run reported, for programs of others that show such things.
///
/// Jobs write to their own metrics.jsonl alone. What trackers read is made from those, by whoever
/// looks at the run on the login node: no job needs a network, no two nodes write to one database
/// over a network file system, and a tracker that cannot be reached fails no job.
namespace dlflow {

using OpenMlflow = std::function<std::unique_ptr<MlflowStore>(const std::string& address,
                                                              std::chrono::milliseconds patience)>;

/// Brings RUN/tensorboard, the MLflow server and the OpenMetrics file that the workflow asks for up
/// to date. Idempotent; one process at a time does it for a run, and another one that comes
/// meanwhile does nothing. Throws Error, after the others have been served, if one cannot be.
/// \param patience  for a server that does not answer; what was given to it stays.
void track(const ReportedRun& run, Time now,
           std::chrono::milliseconds patience = std::chrono::hours(1),
           const OpenMlflow& open_store = open_mlflow);

/// Hands the jobs that have ended to the Python clients of the trackers that the workflow asks for:
/// runs `python3 -m dlflow.track`. Each job once, under the lock of track(). Returns lines that say
/// how to look at them; throws Error with the line of pip if one cannot be served.
std::string hand_to_clients(const ReportedRun& run);

/// A run in OpenMetrics' text format: how many jobs are in each state, since when it runs, and of
/// each job its state, its times and the numbers it reported last, with run, step and job as
/// labels. Source: https://openmetrics.io, version 1.0.0.
std::string openmetrics(const ReportedRun& run, Time now);

}  // namespace dlflow
