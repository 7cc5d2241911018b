#pragma once

#include <vector>

#include "steps/transfer/address.h"
#include "steps/transfer/remote_file.h"

namespace dlflow::steps {

/// Selects the files of `address` from a tool's listing, sorted by name. The names come from
/// another machine: throws Error{InvalidInput} for one that leaves its folder or is not valid here,
/// Error{NotFound} if no file is left.
std::vector<RemoteFile> named_files(const Address& address, std::vector<RemoteFile> listed);

/// Whether a name from elsewhere is safe: relative, without "..", in UTF-8 and on one line.
bool is_safe_name(const std::string& name);

}  // namespace dlflow::steps
