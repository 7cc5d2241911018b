#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "steps/transfer/address.h"

namespace dlflow::steps {

/// One file of a remote listing.
struct RemoteFile {
  std::string name;  ///< relative to the folder; empty for a single file
  std::optional<uint64_t> bytes = {};
  std::string version = {};  ///< a hub's hash of the content, or size and mtime; or empty
  bool executable = false;
  std::string sha256 = {};  ///< from its server; empty: unknown
};

/// Selects the files of `address` from a tool's listing, sorted by name. The names come from
/// another machine: throws Error{InvalidInput} for one that leaves its folder or is not valid here,
/// Error{NotFound} if no file is left.
std::vector<RemoteFile> named_files(const Address& address, std::vector<RemoteFile> listed);

/// Whether a name from elsewhere is safe: relative, without "..", in UTF-8 and on one line.
bool is_safe_name(const std::string& name);

}  // namespace dlflow::steps
