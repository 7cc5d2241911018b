#pragma once

#include "engine/plan/plan.h"

/// Which class of the profile's nodes each job goes to.
namespace dlflow {

/// Gives each job the class that its step names, or else the first one that fits its resources, and
/// sets plan.places. A class `local: true` is only taken by name. Without a batch system, and
/// without classes, there are no places: then `on:` is ignored by the one, and refused by the
/// other. A job that takes an earlier result needs no place.
///
/// Throws Error{InvalidInput} with the place in the workflow, if a step names a class that the
/// profile does not have, or fits none.
void place_jobs(Plan& plan);

/// The profile as `job` sees it: with what its class says.
const Profile& profile_of(const Plan& plan, const PlannedJob& job);

/// The job runs on the login node.
bool is_on_login_node(const Plan& plan, const PlannedJob& job);

/// Why a job that asks for `resources` cannot run there: "has 4 GPUs on a node, not 8"; empty: it
/// can. \param profile  with_class(); what it does not know does not stand in the way, but for GPUs
std::string misfit(const Resources& resources, const Profile& profile);

}  // namespace dlflow
