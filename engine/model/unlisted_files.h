#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/workflow.h"

namespace dlflow {

/// A file or folder that a step reads but that is not among its `inputs`.
struct UnlistedFile {
  std::string name;
  std::string reader = {};  ///< the Python file that reads it; empty if the command names it
  bool operator==(const UnlistedFile&) const = default;
};

/// The user's files that a `run:` step reads without listing them in `inputs`: files that its
/// command names, and files that a Python script named there reads from its own folder. A change of
/// such a file would not rerun the step. \param base  the workflow's folder. Ignores system files
/// (/usr, /etc, …) and programs elsewhere, such as those of a virtual environment.
std::vector<UnlistedFile> unlisted_files(const Step& step, const std::filesystem::path& base);

}  // namespace dlflow
