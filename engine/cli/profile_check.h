#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/batch/probe.h"
#include "engine/cli/session.h"
#include "engine/model/profile.h"
#include "engine/plan/plan.h"

namespace dlflow {

/// Tests `profile` and prints what works and what fails, with advice. On a cluster it submits a
/// probe job, which is cancelled if it has not run within `patience`; with the local back end it
/// runs the probe here. \param plan  of a workflow whose steps' `environment:` must load where they
/// run; may be null. Sets `session.status`.
void check_profile(Session& session, const Profile& profile, std::chrono::seconds patience,
                   const Plan* plan);

/// Runs the probe here and adds its results to `findings`. \param ranks  started by the launcher.
/// \param node_class  the profile's class for a cluster's login node; otherwise empty.
void check_local(Session& session, const Profile& profile, int ranks, const std::string& node_class,
                 std::vector<ProbedEnvironment> environments, Json& findings);

}  // namespace dlflow
