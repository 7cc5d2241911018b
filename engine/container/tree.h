#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/digest.h"

/// Root file systems as folders.
namespace dlflow {

struct TreeHash {
  std::string sha256;
  uint64_t bytes = 0;
  uint64_t files = 0;
};

/// One hash of the names, contents and execute permissions of all files and links below `root`.
/// Ignores empty folders, which runtimes create as mount points, and devices and pipes. Throws
/// Error if something cannot be read.
TreeHash hash_tree(const std::filesystem::path& root,
                   const std::function<std::string(const std::filesystem::path&)>& sha256);

/// The digest of an image in the folder `root`: like hash_tree(), but without the mount
/// points of add_mount_points(), where runtimes put the host's files, and with the names of pipes,
/// sockets, devices and empty folders elsewhere. Throws Error.
Digest folder_digest(const std::filesystem::path& root,
                     const std::function<std::string(const std::filesystem::path&)>& sha256);

/// Whether nothing at or below `root` has changed since `file` was made or changed. False if they
/// are on different file systems, whose clocks may differ. Reads no file.
bool is_unchanged_since(const std::filesystem::path& root, const std::filesystem::path& file);

/// A text that changes with any change at or below `root`: names, sizes, times and inodes of all
/// entries. Reads no file. Throws std::exception.
std::string tree_identity(const std::filesystem::path& root);

/// The number of files and links with content, their bytes and the newest modification time, which
/// change once a program writes something. Reads no file.
std::string tree_state(const std::filesystem::path& root);

/// Removes write permission from everything at and below `root`.
void make_read_only(const std::filesystem::path& root);

/// Creates the mount point `target` of a container, a folder or an empty file, below `root`,
/// following links as in the container. Throws Error, naming both, if it neither exists nor can be
/// created.
enum class MountPoint { Folder, File };
void make_mount_point(const std::filesystem::path& root, const std::filesystem::path& target,
                      MountPoint what);

/// Creates everything below `root` that runtimes mount on or write, so that they need not.
void add_mount_points(const std::filesystem::path& root);

/// Resolves `name`, relative to `root` or absolute, as in a container with that root: follows links
/// in all parts except the last, inside `root`. Missing parts stay as they are.
std::filesystem::path resolve_in(const std::filesystem::path& root,
                                 const std::filesystem::path& name);

}  // namespace dlflow
