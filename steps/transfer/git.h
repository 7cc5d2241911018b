#pragma once

#include <filesystem>
#include <string>

#include "steps/transfer/address.h"
#include "steps/transfer/retry.h"

namespace dlflow::steps {

/// Writes the files of `commit` (40 hexadecimal digits), without history, submodules and what
/// .gitattributes would change, to a new tar file `archive`. git verifies them: the commit's name
/// is a hash over all of it. `repository` is a folder for what git needs meanwhile, gone
/// afterwards. A fetch that breaks off begins anew. Throws Error with git's reason, and Stopped.
void git_archive(const Address& address, const std::string& commit,
                 const std::filesystem::path& repository, const std::filesystem::path& archive,
                 const RetryPolicy& retry);

}  // namespace dlflow::steps
