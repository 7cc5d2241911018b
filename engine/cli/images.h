#pragma once

#include "engine/model/profile.h"
#include "engine/model/workflow.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/plan.h"

/// The images of a workflow before it runs.
namespace dlflow {

/// Gives each image that a step uses the digest that it has now. Throws Error{InvalidInput}, with
/// the place in the file, if it is not there, is not what `digest:` or the bundle that the workflow
/// came in says, or if the profile runs no containers.
void pin_images(Workflow& workflow, const Profile& profile, FileHashes& hashes);

/// Brings what registries have into the cache while we are where they can be reached: compute nodes
/// often cannot.
void fetch_images(const Plan& plan);

}  // namespace dlflow
