#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/report/report_data.h"
#include "engine/track/mlflow.h"

/// `track:` of a workflow: passes what a run reported to external trackers.
///
/// Jobs write only to their own metrics.jsonl. The input of trackers is made from these files when
/// somebody looks at the run on the login node: jobs need no network, no two nodes write to one
/// database over a network file system, and an unreachable tracker fails no job.
namespace dlflow {

using OpenMlflow = std::function<std::unique_ptr<MlflowStore>(const std::string& address,
                                                              std::chrono::milliseconds patience)>;

/// Updates RUN/tensorboard, the MLflow server and the OpenMetrics file, as far as the workflow asks
/// for them. Idempotent. Only one process at a time does this for a run; others return at once. If
/// one of the three fails, throws Error after updating the others.
/// \param patience  for a server that does not answer; it keeps what it has received.
void track(const ReportedRun& run, Time now,
           std::chrono::milliseconds patience = std::chrono::hours(1),
           const OpenMlflow& open_store = open_mlflow);

/// Passes each job that has ended once to the Python clients of the workflow's trackers, with
/// `python3 -m dlflow.track`, under the lock of track(). Returns lines on how to look at them;
/// throws Error with a pip command if one cannot be used.
std::string hand_to_clients(const ReportedRun& run);

/// A run in OpenMetrics' text format: the number of jobs in each state, the start of the run, and
/// for each job its state, its times and the numbers that it reported last, labelled with run, step
/// and job. Source: https://openmetrics.io, version 1.0.0.
std::string openmetrics(const ReportedRun& run, Time now);

}  // namespace dlflow
