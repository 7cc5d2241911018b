#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

/// The content of a report: what `dlflow report` puts into its page.
namespace dlflow {

/// A run as it is recorded.
struct ReportedRun {
  Plan plan;
  RunStatus status;                                     ///< with what jobs used
  std::map<std::string, std::vector<JobEvent>> events;  ///< by job
};

/// Times are seconds after the run began, but for `made` and `started`. Curves are thinned, so that
/// runs of 10,000 jobs are a few MB; read from the folders of the jobs. Nothing here names a folder
/// of this machine, but in what programs said themselves.
Json report_data(std::span<const ReportedRun> runs, Time now);

}  // namespace dlflow
