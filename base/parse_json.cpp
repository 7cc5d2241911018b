#include "base/parse_json.h"

#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"

namespace dlflow {
namespace {

/// The deepest nesting of brackets outside of strings. Accepts any text, not only JSON.
size_t depth_of(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest) deepest = depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

/// The reason to refuse the text before it is parsed.
std::optional<std::string> excess(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return "is larger than the " + format_size(limits.max_bytes) + " that may be read";
  }
  if (depth_of(text) > limits.max_depth) {
    return "is nested deeper than " + std::to_string(limits.max_depth) + " levels";
  }
  return std::nullopt;
}

/// The start and end of a path: one with thousands of folders does not fit on a line.
std::string short_path(const std::string& path) {
  constexpr size_t kEnd = 150;
  return path.size() <= 2 * kEnd ? path
                                 : path.substr(0, kEnd) + "..." + path.substr(path.size() - kEnd);
}

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  if (excess(text, limits)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json parse_json_or_throw(std::string_view text, const std::string& what, const JsonLimits& limits) {
  if (const auto reason = excess(text, limits)) {
    throw Error(Errc::Corrupt, what + " " + *reason);
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, what + " is not JSON: " + reason_of(error));
  }
}

Json read_json_file(const std::filesystem::path& file, const JsonLimits& limits) {
  return parse_json_or_throw(read_file(file, limits.max_bytes), file.string(), limits);
}

std::string reason_of(const std::exception& error) {
  if (const auto* found = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return short_path(found->path1().string()) + ": " + found->code().message();
  }
  const std::string_view text = error.what();
  if (!text.starts_with("[json.exception.")) return std::string(text);
  const size_t end = text.find("] ");
  return std::string(end == text.npos ? text : text.substr(end + 2));
}

}  // namespace dlflow
