#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Addresses of files, as far as both the plan and the steps need to understand them.
namespace dlflow {

/// "%20" -> " "; anything that is not an escape stays.
std::string percent_decoded(std::string_view text);

/// The inverse for a path: letters, digits, '/' and "-._~" stay.
std::string percent_encoded(std::string_view path);

/// `url` as messages show it: without user name, password and query, which may be secrets.
std::string display_url(const std::string& url);

/// The path of an address: a file; all files below a folder, if it ends with '/'; or the files of a
/// folder whose names match a pattern.
struct UrlPath {
  std::string path;        ///< decoded, without a last '/'; of a pattern its folder
  bool is_folder = false;  ///< it ends with '/'
  std::string pattern;     ///< as matches() takes it; empty: none

  bool is_file() const { return !is_folder && pattern.empty(); }
};

/// Reads the path of an address. '*', '?' and '[' in its last part make it a pattern, unless they
/// are written %2A, %3F and %5B.
UrlPath parse_url_path(std::string_view encoded);

/// As a shell matches file names: a file that begins with a dot only if the pattern does.
bool matches(const std::string& name, const std::string& pattern);

/// The path of a file:// address; nothing if `url` is another address or has no complete path.
std::optional<UrlPath> parse_file_url(std::string_view url);

}  // namespace dlflow
