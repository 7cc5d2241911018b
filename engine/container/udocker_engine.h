#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// The programs that udocker starts containers with.
namespace dlflow {

/// Variables ("NAME=value") that tell udocker which proot or runc to use: that from PATH if there
/// is one, proot through a script in `folder` that mends a trap of Debian's. None otherwise: then
/// it is the one that `udocker install` has put into the user's UDOCKER_DIR.
std::vector<std::string> udocker_engine(const std::string& mode, const std::filesystem::path& cache,
                                        const std::filesystem::path& folder);

}  // namespace dlflow
