#pragma once

#include <filesystem>
#include <string>

/// Whether an object of the cache was written to since it was made; see cache.h.
namespace dlflow::steps {

/// Marks `file`, whose hash is `sha256`, as unchanged, and makes it read-only. Throws Error.
void seal(const std::filesystem::path& file, const std::string& sha256);

/// True if `file` still has the content of that hash, and its mode: it is a file of this user that
/// nobody else may write to, and the seal holds, or hashing it again says so (then it is sealed
/// anew). Throws Error if it cannot be read.
bool is_intact(const std::filesystem::path& file, const std::string& sha256);

/// Notes that `file` is wanted now, for eviction. Fails silently in a read-only cache.
void mark_used(const std::filesystem::path& file);

}  // namespace dlflow::steps
