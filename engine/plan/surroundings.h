#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

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

/// Whether the variable `name` is one by which the libraries of training choose instructions,
/// precision, threads or the order of sums. dlflow's own programs get it from `environment:` of the
/// profile or `env:` of the step, which are in the fingerprint, and never from a shell.
bool chooses_numerics(std::string_view name);

/// What `inherit:` of the profile and of the step names.
std::vector<std::string> inherited_by(const Profile& profile, const Step& step);

/// The same of any step.
std::vector<std::string> inherited_by(const Profile& profile, const std::vector<Step>& steps);

/// The variables of this shell that `step`, of a kind that copies sources, gets from it, and that
/// say which servers its addresses mean.
std::map<std::string, std::string> inherited_servers(const Profile& profile, const Step& step,
                                                     std::map<std::string, std::string> variables);

}  // namespace dlflow
