#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Addresses of files, as far as both plan and steps interpret them.
namespace dlflow {

/// "%20" -> " "; anything else stays.
std::string percent_decoded(std::string_view text);

/// The inverse for a path: letters, digits, '/' and "-._~" stay.
std::string percent_encoded(std::string_view path);

/// `url` for messages: without user name, password and query, which may be secrets.
std::string display_url(const std::string& url);

/// The path of an address: a file; all files below a folder, if it ends with '/'; or the files in a
/// folder with names that match a pattern.
struct UrlPath {
  std::string path;        ///< decoded, without a final '/'; for a pattern its folder
  bool is_folder = false;  ///< it ends with '/'
  std::string pattern;     ///< for matches(); empty: none

  bool is_file() const { return !is_folder && pattern.empty(); }
};

/// Parses the path of an address. '*', '?' and '[' in its last part make it a pattern, unless they
/// are written %2A, %3F and %5B.
UrlPath parse_url_path(std::string_view encoded);

/// Matches like a shell: a name that begins with a dot only if the pattern does.
bool matches(const std::string& name, const std::string& pattern);

/// The path of a file:// address; nothing if `url` is another address or has no complete path.
std::optional<UrlPath> parse_file_url(std::string_view url);

}  // namespace dlflow
