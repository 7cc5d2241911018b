#pragma once

#include <filesystem>

/// A file that lies in two places.
namespace dlflow::steps {

/// Makes `to` a file with the content of `from`: a hard link if the file system allows it, else a
/// clone that shares its blocks, else a copy. `to` must not exist; neither file may be written to
/// afterwards. Throws Error{NotFound} if `from` does not exist.
void place_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Like place_file, but never a hard link.
void place_copy(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace dlflow::steps
