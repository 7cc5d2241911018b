#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/batch/probe.h"
#include "engine/cli/session.h"
#include "engine/model/profile.h"
#include "engine/plan/plan.h"

namespace dlflow {

/// Tries out what `profile` promises and prints what works and what does not, with advice: by a
/// probe job on a cluster, which is cancelled if it has not run within `patience`; by running the
/// probe here with the local back end. \param plan  of a workflow whose steps' `environment:` is to
/// load where they run; may be null. Sets `session.status`.
void check_profile(Session& session, const Profile& profile, std::chrono::seconds patience,
                   const Plan* plan);

/// Runs the probe here and adds what it finds to `findings`. \param ranks  that the launcher
/// starts. \param node_class  of a cluster's login node, as a class of the profile; else empty.
void check_local(Session& session, const Profile& profile, int ranks, const std::string& node_class,
                 std::vector<ProbedEnvironment> environments, Json& findings);

}  // namespace dlflow
