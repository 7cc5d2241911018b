#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"

/// JSON that this process did not write itself, parsed within limits.
///
/// Json values are copied, compared and written by recursion: one that is nested 100,000 levels
/// deep overflows the stack. So depth and size are checked before anything is built, and
/// Json::parse is only for text that this very process wrote.
namespace dlflow {

struct JsonLimits {
  size_t max_depth = 256;               ///< of arrays and objects
  size_t max_bytes = size_t{64} << 20;  ///< of the text; its values take up to 30 times more
};

/// For texts of other programs that become part of dlflow's own texts.
constexpr JsonLimits kForeignJson{.max_depth = 64, .max_bytes = size_t{16} << 20};

/// Parses `text`; the value is discarded (is_discarded()) if it is not JSON or exceeds the limits.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

/// Like parse_json, but throws Error{Corrupt} with `what`, the name of the file, and the reason.
Json parse_json_or_throw(std::string_view text, const std::string& what,
                         const JsonLimits& limits = {});

/// Like parse_json_or_throw, for a whole file. Also throws Error like read_file.
Json read_json_file(const std::filesystem::path& file, const JsonLimits& limits = {});

/// A library's message without the name of its class: "type must be string, but is number"; for
/// files "PATH: File name too long".
std::string reason_of(const std::exception& error);

}  // namespace dlflow
