#pragma once

#include <span>

#include "engine/store/run_status.h"

/// The content of a report: what `dlflow report` puts into its page.
namespace dlflow {

/// Times are seconds since the run began, except for `made` and `started`. Curves come from the
/// folders of the jobs and are thinned, so that a run of 10,000 jobs takes a few MB. The result
/// names no folder of this machine, except in what programs reported themselves.
Json report_data(std::span<const ReportedRun> runs, Time now);

}  // namespace dlflow
