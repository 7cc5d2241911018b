#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlflow::steps {

/// One file of a remote listing.
struct RemoteFile {
  std::string name;  ///< relative to the folder; empty for a single file
  std::optional<uint64_t> bytes = {};
  std::string version = {};  ///< size and time of change, which change with the content; or empty
  bool executable = false;
  std::string sha256 = {};  ///< as its server says; empty: it does not
};

}  // namespace dlflow::steps
