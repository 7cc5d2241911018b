#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/workflow.h"

namespace dlflow {

/// The files of the user that the command of a `run:` step names and that are not among its
/// `inputs`: a change of one would not make the step run again. \param base  the workflow's folder.
/// Files of the system (/usr, /etc, …) are not looked at.
std::vector<std::string> unlisted_files(const Step& step, const std::filesystem::path& base);

}  // namespace dlflow
