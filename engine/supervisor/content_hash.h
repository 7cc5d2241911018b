#pragma once

#include <filesystem>
#include <functional>
#include <string>

/// The content of a file or folder, as one SHA-256.
namespace dlflow {

/// The hash of one file's content.
using HashOfFile = std::function<std::string(const std::filesystem::path&)>;

/// Of a file its content; of a folder the names and contents of all that is below it, empty folders
/// and the right to run a file among them. A link that stays in the folder counts as the link that
/// it is, another one as what it leads to. Throws Error, also of a link to a folder that it lies
/// in.
std::string content_hash(const std::filesystem::path& path);
std::string content_hash(const std::filesystem::path& path, const HashOfFile& hash_of);

/// Where a link leads; what is there may be a link, too.
std::filesystem::path target_of(const std::filesystem::path& link);

}  // namespace dlflow
