#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

/// Secrets: environment variables whose values only programs may see. A file of them has a line
/// NAME=VALUE for each; empty lines and those that begin with # are ignored.
namespace dlflow {

/// Name -> value.
using Secrets = std::map<std::string, std::string>;

/// The minimum length: secrets are removed from logs, and a shorter one would occur in many words.
inline constexpr size_t kShortestSecret = 4;

/// Throws Error{InvalidInput} if `value` cannot be kept secret: it is too short, or has more than
/// one line.
/// \param origin  its source, for the message, which does not contain the value.
void check_secret(const std::string& name, std::string_view value, const std::string& origin);

/// Parses the content of a file. Throws Error{InvalidInput} with `file` and the number of a wrong
/// line; also throws like check_secret.
Secrets parse_secrets(std::string_view text, const std::filesystem::path& file);

/// The secrets with these `names`; reads no file if there are none. Throws Error{NotFound} for a
/// missing one.
Secrets read_secrets(const std::filesystem::path& file, const std::set<std::string>& names);

/// Replaces `file`, which has mode 0600 from the beginning, and syncs it.
void write_secrets(const std::filesystem::path& file, const Secrets& secrets);

}  // namespace dlflow
