#pragma once

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// The part of a profile that tells a step's program of the place it runs in.
namespace dlflow {

/// For the fingerprint. A command may look at all of it. Of dlflow's own programs it is known what
/// changes their results: the servers whose files the addresses of `stage` mean, and the variables
/// that choose how numbers are computed.
/// \param profile  with the class of the job, see profile_of()
/// \param ranks    of the job
Json surroundings_of(const Profile& profile, const Step& step, int ranks);

}  // namespace dlflow
