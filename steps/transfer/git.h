#pragma once

#include <filesystem>
#include <string>

#include "steps/transfer/address.h"
#include "steps/transfer/limits.h"

namespace dlflow::steps {

/// Writes the files of `commit` (40 hexadecimal digits) to a new tar file `archive`: without
/// history and submodules, and without the changes that .gitattributes would make. git verifies
/// them, since the commit's name is a hash over all of it. `repository` is a temporary folder for
/// git. An interrupted fetch starts again. Throws Error with git's reason, and Stopped.
void git_archive(const Address& address, const std::string& commit,
                 const std::filesystem::path& repository, const std::filesystem::path& archive,
                 const RetryPolicy& retry);

}  // namespace dlflow::steps
