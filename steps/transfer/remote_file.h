#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlflow::steps {

/// One file of a remote listing.
struct RemoteFile {
  std::string name;  ///< relative to the folder; empty for a single file
  std::optional<uint64_t> bytes = {};
  std::string version = {};  ///< a hub's hash of the content, or size and mtime; or empty
  bool executable = false;
  std::string sha256 = {};  ///< from its server; empty: unknown
};

}  // namespace dlflow::steps
