#pragma once

#include <string>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// The release's own image, `PREFIX/share/dlflow/dlflow-VERSION-linux-MACHINE.oci.tar`: programs of
/// steps run in it on systems that cannot load them.
namespace dlflow {

/// Why this machine cannot run the program of `step`, in the image or outside, and what to do;
/// empty if it can, or if only the step's job can tell: behind `setup:` lines, with the step's own
/// environment, in an image.
std::string loading_problem_of(const Step& step, const Profile& profile);

/// Chooses the image for the steps of `workflow` whose programs this machine cannot load, and a
/// runtime for `profile` that has none: the first rootless one in PATH. Where there is no image or
/// no runtime, and for steps that need a GPU, nothing changes. Returns a line for each such step.
std::vector<std::string> use_release_image(Workflow& workflow, Profile& profile);

/// The runtime that the image would run with; empty if there is no image or none.
std::string release_runtime(const Profile& profile);

/// Whether this machine can load the programs of all kinds of steps.
bool loads_programs(const Profile& profile);

}  // namespace dlflow
