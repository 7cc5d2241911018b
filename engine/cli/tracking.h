#pragma once

#include <string>

#include "engine/cli/session.h"
#include "engine/report/report_data.h"

namespace dlflow {

/// All that is on record of a run and of its jobs, brought up to date first. Throws Error as
/// load_run() if its folder is gone or damaged.
ReportedRun read_reported_run(Session& session, const std::string& run,
                              Detail detail = Detail::Usage);

/// track() if the workflow of `run` asks for it, for a few seconds at most. For verbs that do
/// something else, once they have shown it: what fails is a warning.
void keep_track(Session& session, const std::string& run);

}  // namespace dlflow
