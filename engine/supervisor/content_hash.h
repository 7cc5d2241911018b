#pragma once

#include <filesystem>
#include <functional>
#include <string>

/// The content of a file or folder, as one SHA-256.
namespace dlflow {

/// The hash of one file's content.
using HashOfFile = std::function<std::string(const std::filesystem::path&)>;

/// Of a file its content; of a folder the names and contents of everything below it, including
/// empty folders and execute permissions. A link that stays in the folder counts as a link, another
/// one as its target. Throws Error, also for a link to a folder that contains it.
std::string content_hash(const std::filesystem::path& path);
std::string content_hash(const std::filesystem::path& path, const HashOfFile& hash_of);

/// The target of a link, which may itself be a link.
std::filesystem::path target_of(const std::filesystem::path& link);

}  // namespace dlflow
