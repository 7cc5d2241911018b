#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/json.h"

/// The list of a source's files after unpacking: names and hashes of their contents.
namespace dlflow::steps {

struct ListedFile {
  std::string sha256;  ///< empty for a symbolic link
  uint64_t bytes = 0;
  bool executable = false;
  std::string link_target;  ///< of a symbolic link, relative to its folder

  bool operator==(const ListedFile&) const = default;
};

/// The files by relative name, with '/' between folders. A single file is listed under the empty
/// name. Folders exist only through their files; empty ones are not kept.
using Listing = std::map<std::string, ListedFile>;

Json to_json(const Listing& listing);

/// The inverse, or nothing if `json` is not a listing.
std::optional<Listing> listing_from_json(const Json& json);

/// One hash of all names and contents: the hash of the lines "SHA256  NAME\n" sorted by name, as
/// sha256sum prints them ("-> TARGET  NAME\n" for a symbolic link).
std::string hash_of(const Listing& listing);

}  // namespace dlflow::steps
