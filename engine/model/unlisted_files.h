#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/workflow.h"

namespace dlflow {

/// A file or folder that a step reads and that is not among its `inputs`.
struct UnlistedFile {
  std::string name;
  std::string reader = {};  ///< the Python file that reads it; empty: the command names it
  bool operator==(const UnlistedFile&) const = default;
};

/// The files of the user that the command of a `run:` step names, or that a Python script which it
/// names reads from its own folder, and that are not among the step's `inputs`: a change of one
/// would not make the step run again. \param base  the workflow's folder. Files of the system
/// (/usr, /etc, …) and programs elsewhere, as those of a virtual environment, are not looked at.
std::vector<UnlistedFile> unlisted_files(const Step& step, const std::filesystem::path& base);

}  // namespace dlflow
