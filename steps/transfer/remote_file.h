#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlflow::steps {

/// One file of a remote listing.
struct RemoteFile {
  std::string name;  ///< relative to the folder; empty for a single file
  std::optional<uint64_t> bytes = {};
  std::string version = {};  ///< a hub's hash of the content, or size and time of change; or empty
  bool executable = false;
  std::string sha256 = {};  ///< as its server says; empty: it does not
};

}  // namespace dlflow::steps
