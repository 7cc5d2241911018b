#pragma once

#include <map>
#include <string>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

namespace dlflow {

/// Where the outputs are that a command declares: name -> path below $DLFLOW_OUTPUTS, or below the
/// job's folder for what begins with `checkpoints/`.
///
/// A declared path may be a pattern, "version_*/best.ckpt", that one file or folder matches; `*`
/// stops at a slash. What is not below $DLFLOW_OUTPUTS and was left in the working directory is
/// moved there. Links, as inputs are, and what lies behind them stay where they are; of the folder
/// that `checkpoint: {newer: …}` names, outputs are copies. Throws Error{InvalidInput} naming what
/// is missing, and which link is in the way or where a file of that name lies instead; then nothing
/// was moved.
std::map<std::string, std::string> settle_outputs(const JobSpec& spec, const AttemptFiles& files);

}  // namespace dlflow
