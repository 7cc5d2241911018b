#pragma once

#include <chrono>

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

}  // namespace dlflow
