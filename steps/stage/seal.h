#pragma once

#include <filesystem>
#include <string>

/// Seals, which show whether an object of the cache was written to since it was made; see cache.h.
namespace dlflow::steps {

/// Marks `file`, whose hash is `sha256`, as unchanged, and makes it read-only. Throws Error.
void seal(const std::filesystem::path& file, const std::string& sha256);

/// True if `file` still has the content of that hash, and its mode: it belongs to this user, nobody
/// else may write to it, and its seal is intact. If the seal is broken, hashes the file and seals
/// it again if the hash is right. Throws Error if it cannot be read.
bool is_intact(const std::filesystem::path& file, const std::string& sha256);

/// Sets the time of last use of `file`, for eviction. Fails silently in a read-only cache.
void mark_used(const std::filesystem::path& file);

}  // namespace dlflow::steps
