#pragma once

#include "engine/model/profile.h"
#include "engine/model/workflow.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/plan.h"

/// Prepares the images of a workflow before it runs.
namespace dlflow {

/// Sets the current digest of each image that a step uses. Throws Error{InvalidInput}, with the
/// place in the file, if the image is missing, if it differs from `digest:` or from the workflow's
/// bundle, or if the profile runs no containers.
void pin_images(Workflow& workflow, const Profile& profile, FileHashes& hashes);

/// Downloads images from registries into the cache now, since compute nodes often cannot reach
/// them.
void fetch_images(const Plan& plan);

}  // namespace dlflow
