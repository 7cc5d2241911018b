#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

/// The step's `with:` as values.
namespace dlflow::steps {

enum class Unpack { None, Gzip, Zip, Tar };

/// As `unpack:` spells it.
std::string name(Unpack unpack);

struct Source {
  std::string url;
  std::string sha256;  ///< of what the address holds, before unpacking; empty if not declared
  Unpack unpack = Unpack::None;
  std::string name;  ///< below the folder `data`; unique among the sources

  /// The local file of a file:// address; empty for others.
  std::filesystem::path file;
};

/// The sources of `with:`. Throws Error{InvalidInput} naming the source and what is wrong with it.
std::vector<Source> parse_sources(const Json& with);

/// `url` without the user name and password it may have, for messages.
std::string display_url(const std::string& url);

}  // namespace dlflow::steps
