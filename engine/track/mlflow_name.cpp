#include <algorithm>

#include "base/text.h"
#include "engine/track/mlflow.h"

namespace dlflow {
namespace {

/// Of ASCII alone: a server may run where others are no letters.
bool is_allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-. :").find(c) != std::string_view::npos;
}

/// Between two slashes; MLflow takes the name for a relative path that is as short as can be.
std::string part_of_name(std::string_view part) {
  if (part.empty() || part == ".") return "_";
  if (part == "..") return "__";
  std::string name;
  for (const char c : part) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // a character of UTF-8
    if (!continues) name += is_allowed(c) ? c : '_';
  }
  return name.empty() ? "_" : name;
}

}  // namespace

std::string mlflow_name(std::string_view name) {
  constexpr size_t kLongest = 250;
  std::string made;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (begin > 0) made += '/';
    made += part_of_name(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (made.size() <= kLongest) return made;
  made.resize(kLongest);
  for (auto at = made.rbegin(); *at == '/' || *at == '.'; ++at) *at = '_';
  return made;
}

}  // namespace dlflow
