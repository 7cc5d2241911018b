#pragma once

#include <filesystem>
#include <string>

#include "engine/plan/fingerprint.h"

/// The packages that `environment:` of a step finds installed.
namespace dlflow {

/// Stands for the packages of `lock`, which is lock_of_tools(): the SHA-256 of its content, or, of
/// a virtual environment, of its interpreter, pyvenv.cfg, .pth files and the names, versions and
/// code in it; where it sees the system's packages, of these, too. Packages that are no copies
/// (`pip install -e`, uv's own project) count by the code of their project. Empty if there is no
/// such file. Throws Error.
std::string installed_packages(const std::filesystem::path& lock, FileHashes& hashes);

/// Why nobody can say what is installed if `lock` was not there when the run was planned.
std::string unknown_packages(const std::filesystem::path& lock);

}  // namespace dlflow
