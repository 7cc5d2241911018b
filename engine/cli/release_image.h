#pragma once

#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// The release's own image, `PREFIX/share/dlflow/dlflow-VERSION-linux-MACHINE.oci.tar`. Systems
/// that cannot load the programs of steps run them in it.
namespace dlflow {

/// Why this machine can run the program of `step` neither in the image nor outside, and what to do.
/// Empty if it can, or if only the step's job can tell: after `setup:` lines, with the step's own
/// environment, or in an image.
std::string loading_problem_of(const Step& step, const Profile& profile);

/// Chooses the image for the steps of `workflow` whose programs this machine cannot load. A profile
/// without a runtime gets the first rootless one in PATH. Changes nothing without image or runtime,
/// or for steps that need a GPU. Returns a line for each changed step.
std::vector<std::string> use_release_image(Workflow& workflow, Profile& profile);

/// The runtime for the image; empty if either is missing.
std::string release_runtime(const Profile& profile);

/// Whether this machine can load the programs of all kinds of steps.
bool loads_programs(const Profile& profile);

}  // namespace dlflow
