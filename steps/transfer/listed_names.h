#pragma once

#include <vector>

#include "steps/transfer/address.h"
#include "steps/transfer/remote_file.h"

namespace dlflow::steps {

/// Of what a tool listed below `address`, those files that it names, in the order of names. The
/// names come from another machine: Error{InvalidInput} for one that leads out of its folder or
/// that cannot be a name here. Error{NotFound} if no file is left.
std::vector<RemoteFile> named_files(const Address& address, std::vector<RemoteFile> listed);

/// The same names, if they come from elsewhere: relative, without "..", in UTF-8 and on one line.
bool is_safe_name(const std::string& name);

}  // namespace dlflow::steps
