#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/url.h"

/// The files of this machine below a folder or at an address.
namespace dlflow {

/// Whether tools keep their own files under this name beside the user's: __pycache__,
/// .ipynb_checkpoints, .git, .nfs*.
bool is_of_a_tool(const std::string& name);

enum class OfTools { Count, LeftOut };

/// All files below `folder`, without folders, unordered, following links. Leaves out `left_out` if
/// that is a folder below it. Throws filesystem_error naming a folder that cannot be read, or a
/// link to a folder that contains it.
std::vector<std::filesystem::directory_entry> entries_below(
    const std::filesystem::path& folder, const std::filesystem::path& left_out = {},
    OfTools of_tools = OfTools::Count);

/// The same together with the empty folders, in one walk, except `folder` itself.
struct FolderContent {
  std::vector<std::filesystem::directory_entry> entries;
  std::vector<std::filesystem::path> empty_folders;
};
FolderContent content_below(const std::filesystem::path& folder, OfTools of_tools);

/// Whether `path` is `folder` or lies below it, comparing only their names.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);

struct LocalFile {
  std::string name;  ///< relative to the folder, with '/' between folders; empty for a single file
  std::filesystem::path path;
};

/// The files at `place`, sorted by name, following links. Throws Error{NotFound} if there is
/// nothing, Error{InvalidInput} if it names a file but is a folder, or if a folder holds something
/// that is neither file nor folder.
std::vector<LocalFile> list_local_files(const UrlPath& place);

}  // namespace dlflow
