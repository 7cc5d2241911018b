#pragma once

#include <string>

#include "engine/cli/session.h"
#include "engine/report/report_data.h"

namespace dlflow {

/// All that is on record of a run and of its jobs, brought up to date first. Throws Error as
/// load_run() if its folder is gone or damaged.
ReportedRun read_reported_run(Session& session, const std::string& run,
                              Detail detail = Detail::Usage);

}  // namespace dlflow
