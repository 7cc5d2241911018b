#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model/mistakes.h"

/// YAML text as a tree that knows where everything stands.
namespace dlflow {

struct YamlNode;

/// Shared, since an alias is the node of its anchor again.
using YamlPointer = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;    ///< empty in a list
  Location location;  ///< of the key, in a list of the value
  YamlPointer value;
  int first_line = 0;  ///< a key that is there twice: the line of the first one; else 0
};

struct YamlNode {
  enum class Kind { Scalar, List, Map };
  Kind kind = Kind::Scalar;
  Location location;
  size_t offset = 0;    ///< of its first byte in the text
  Json scalar;          ///< plain text typed by YAML 1.2's core schema; quoted text is a string
  std::string written;  ///< a number's text, if JSON would write another: 3.10, 010, 1e-3
  std::vector<YamlEntry> entries;
};

struct YamlLimits {
  size_t max_depth = 64;
  size_t max_nodes = 1'000'000;  ///< after aliases are expanded
};

/// Reads the text of `mistakes`, one document. Null if it is no YAML, is empty or exceeds a limit;
/// each such reason is added to `mistakes`. A tree may come with mistakes too (a second document).
YamlPointer read_yaml(Mistakes& mistakes, const YamlLimits& limits);

/// Adds what keeps `mistakes.text()` from being text at all: bytes that are no UTF-8, control
/// characters. False if there is any.
bool check_characters(Mistakes& mistakes);

/// The value without its places; of keys that are there twice, the first.
Json to_json(const YamlNode& node);

/// The tree of `value`, everything in it at `location`.
YamlPointer to_yaml(const Json& value, Location location);

/// The entry of a map with that key, or null.
const YamlEntry* find_entry(const YamlNode& map, std::string_view key);

}  // namespace dlflow
