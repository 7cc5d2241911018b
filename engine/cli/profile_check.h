#pragma once

#include <chrono>

#include "engine/cli/session.h"
#include "engine/model/profile.h"

namespace dlflow {

/// Tries out what `profile` promises and prints what works and what does not, with advice: by a
/// probe job on a cluster, which is cancelled if it has not run within `patience`; by running the
/// probe here with the local back end. Sets `session.status`.
void check_profile(Session& session, const Profile& profile, std::chrono::seconds patience);

}  // namespace dlflow
