#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model/mistakes.h"

/// YAML text as a tree whose nodes have their locations.
namespace dlflow {

struct YamlNode;

/// Shared, since an alias is the same node as its anchor.
using YamlPointer = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;    ///< empty in a list
  Location location;  ///< of the key; in a list, of the value
  YamlPointer value;
  int first_line = 0;  ///< for a repeated key, the line of the first one; otherwise 0
};

struct YamlNode {
  enum class Kind { Scalar, List, Map };
  Kind kind = Kind::Scalar;
  Location location;
  size_t offset = 0;    ///< of its first byte in the text
  Json scalar;          ///< plain text typed by YAML 1.2's core schema; quoted text is a string
  std::string written;  ///< a number's text, if JSON would write it differently: 3.10, 010, 1e-3
  std::vector<YamlEntry> entries;
};

struct YamlLimits {
  size_t max_depth = 64;
  size_t max_nodes = 1'000'000;  ///< after aliases are expanded
};

/// Reads one document from the text of `mistakes`. Returns null if it is invalid, empty or exceeds
/// a limit, and adds the reasons to `mistakes`. A tree may come with mistakes (a second document).
YamlPointer read_yaml(Mistakes& mistakes, const YamlLimits& limits);

/// The value without locations; the first of repeated keys counts.
Json to_json(const YamlNode& node);

/// The tree of `value`, with `location` for all its nodes.
YamlPointer to_yaml(const Json& value, Location location);

/// The entry of a map with that key, or null.
const YamlEntry* find_entry(const YamlNode& map, std::string_view key);

}  // namespace dlflow
