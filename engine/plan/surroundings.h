#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// The part of a profile that a step's program can see.
namespace dlflow {

/// For the fingerprint. A command may see all of it. For dlflow's own programs, only these can
/// change results: the servers that addresses of `stage` mean, and the variables that affect
/// numerics.
/// \param profile  with the class of the job, see profile_of()
/// \param ranks    of the job
Json surroundings_of(const Profile& profile, const Step& step, int ranks);

/// Whether the variable `name` chooses instructions, precision, threads or the order of sums in
/// training libraries. dlflow's own programs get it only from `environment:` of the profile or
/// `env:` of the step, which are in the fingerprint, and never from a shell.
bool chooses_numerics(std::string_view name);

/// The names in `inherit:` of the profile and of the step.
std::vector<std::string> inherited_by(const Profile& profile, const Step& step);

/// The same for all steps together.
std::vector<std::string> inherited_by(const Profile& profile, std::span<const Step> steps);

/// The variables that `step`, of a kind that copies sources, inherits from this shell and that
/// decide which servers its addresses mean.
std::map<std::string, std::string> inherited_servers(const Profile& profile, const Step& step,
                                                     std::map<std::string, std::string> variables);

}  // namespace dlflow
