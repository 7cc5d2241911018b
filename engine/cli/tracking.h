#pragma once

#include <string>

#include "engine/cli/session.h"
#include "engine/report/report_data.h"

namespace dlflow {

/// All records of a run and of its jobs, refreshed first. Throws Error like load_run() if its
/// folder is gone or damaged.
ReportedRun read_reported_run(Session& session, const std::string& run,
                              Detail detail = Detail::Usage);

/// Calls track(), for a few seconds at most, if the workflow of `run` asks for it. Called by other
/// verbs after their own output; errors become warnings.
void keep_track(Session& session, const std::string& run);

}  // namespace dlflow
