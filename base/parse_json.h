#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"

/// JSON that this process did not write itself, read within limits.
///
/// Json values are copied, compared and written by recursion: one that is nested 100,000 levels
/// deep overflows the stack of whoever touches it. So depth and size are looked at before anything
/// is built, and Json::parse is for text of this very process alone.
namespace dlflow {

struct JsonLimits {
  size_t max_depth = 256;               ///< of arrays and objects
  size_t max_bytes = size_t{64} << 20;  ///< of the text; its values take up to 30 times as much
};

/// For texts of other programs that dlflow then writes into its own texts.
constexpr JsonLimits kForeignJson{.max_depth = 64, .max_bytes = size_t{16} << 20};

/// The value; discarded (is_discarded()) if `text` is no JSON or goes beyond the limits.
Json parse_json(std::string_view text, const JsonLimits& limits = {});

/// As parse_json. Throws Error{Corrupt} that begins with `what`, the name of the file, and gives
/// the reason.
Json parse_json_or_throw(std::string_view text, const std::string& what,
                         const JsonLimits& limits = {});

/// As parse_json_or_throw, of a whole file. Throws Error as read_file, too.
Json read_json_file(const std::filesystem::path& file, const JsonLimits& limits = {});

/// A library's message without the name of its class: "type must be string, but is number"; of
/// files "PATH: File name too long".
std::string reason_of(const std::exception& error);

}  // namespace dlflow
