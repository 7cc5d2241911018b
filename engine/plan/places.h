#pragma once

#include "engine/plan/plan.h"

/// The class of the profile's nodes that each job goes to.
namespace dlflow {

/// Gives each job the class that its step names, or else the first one that fits its resources, and
/// sets plan.places. A class with `local: true` is taken only by name. There are no places without
/// a batch system (`on:` is then ignored), nor without classes (`on:` is then an error). A job with
/// a reused result needs no place.
///
/// Throws Error{InvalidInput} with the place in the workflow, if a step names an unknown class or
/// fits none.
void place_jobs(Plan& plan);

/// The profile for `job`: with the settings of its class.
const Profile& profile_of(const Plan& plan, const PlannedJob& job);

/// Whether the job runs on the login node.
bool is_on_login_node(const Plan& plan, const PlannedJob& job);

/// Why a job that asks for `resources` cannot run there: "has 4 GPUs on a node, not 8"; empty: it
/// can. \param profile  with_class(); its unknown values are no obstacle, except for GPUs
std::string misfit(const Resources& resources, const Profile& profile);

}  // namespace dlflow
