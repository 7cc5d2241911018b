#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

/// Secrets: environment variables whose values are for programs, and for nobody to see. A file of
/// them has a line NAME=VALUE for each; empty lines and those that begin with # say nothing.
namespace dlflow {

/// Name -> value.
using Secrets = std::map<std::string, std::string>;

/// Logs are kept free of secrets; a shorter one would take half of the words with it.
inline constexpr size_t kShortestSecret = 4;

/// Throws Error{InvalidInput} if `value` cannot be kept a secret: it is too short, or has more than
/// one line. \param origin  where it comes from, for the message, which does not tell the value.
void check_secret(const std::string& name, std::string_view value, const std::string& origin);

/// The content of a file. Throws Error{InvalidInput} with `file` and the number of a wrong line,
/// and as check_secret.
Secrets parse_secrets(std::string_view text, const std::filesystem::path& file);

/// Those called `names`; no file is read for none. Throws Error{NotFound} for a missing one.
Secrets read_secrets(const std::filesystem::path& file, const std::set<std::string>& names);

/// Replaces `file`, mode 0600 from its beginning; on disk when it returns.
void write_secrets(const std::filesystem::path& file, const Secrets& secrets);

}  // namespace dlflow
