#pragma once

#include "engine/cli/session.h"
#include "engine/plan/plan.h"
#include "engine/run/verbs.h"

/// Results of verbs on runs: for people, as JSON, and as the exit status.
namespace dlflow {

void report_outcome(Session& session, const Plan& plan, const Outcome& outcome);

/// Of a run that goes on in the background.
void report_detached(Session& session, const Plan& plan, const Outcome& outcome);

void report_cancelled(const Session& session, const std::string& run, const Cancelled& cancelled);

}  // namespace dlflow
