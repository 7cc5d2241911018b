#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/fingerprint.h"

/// The packages installed for `environment:` of a step.
namespace dlflow {

/// Identifies the packages of `lock`, which is lock_of_tools(). For a file, the SHA-256 of its
/// content. For a virtual environment, a hash of its interpreter, pyvenv.cfg, .pth files, the
/// names, versions and code in it, and the system's packages if it sees them. Packages that are not
/// copies (`pip install -e`, uv's own project) count by the code of their project. Empty if `lock`
/// does not exist. Throws Error.
std::string installed_packages(const std::filesystem::path& lock, FileHashes& hashes);

/// Explains that the packages are unknown because `lock` did not exist when the run was planned.
std::string unknown_packages(const std::filesystem::path& lock);

}  // namespace dlflow
