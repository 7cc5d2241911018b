#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

/// Root file systems as folders.
namespace dlflow {

struct TreeHash {
  std::string sha256;
  uint64_t bytes = 0;
  uint64_t files = 0;
};

/// One hash of the names, contents and execute permissions of all files and links below `root`.
/// Empty folders do not count: runtimes make some to mount on. Neither do devices and pipes.
/// Throws Error if something cannot be read.
TreeHash hash_tree(const std::filesystem::path& root,
                   const std::function<std::string(const std::filesystem::path&)>& sha256);

/// The digest of an image in the folder `root`: "sha256:" and hash_tree() without the mount points
/// of add_mount_points(), since runtimes put the host's files there, and with the names of pipes,
/// sockets, devices and empty folders elsewhere. Throws Error.
std::string folder_digest(const std::filesystem::path& root,
                          const std::function<std::string(const std::filesystem::path&)>& sha256);

/// Whether nothing below `root`, itself included, has changed since `file` was made or changed, by
/// the times of one file system: times of two file systems are of two clocks, and prove nothing.
/// Reads no file.
bool is_unchanged_since(const std::filesystem::path& root, const std::filesystem::path& file);

/// A text that changes with any change below `root`, itself included: names, sizes, times and
/// inodes of all entries. Reads no file. Throws std::exception.
std::string tree_identity(const std::filesystem::path& root);

/// The number of files and links with content, their bytes and the newest time of modification:
/// these differ once a program has written something. Reads no file.
std::string tree_state(const std::filesystem::path& root);

/// Removes the permission to write from everything below `root`, itself included.
void make_read_only(const std::filesystem::path& root);

/// Makes the mount point `target` of a container, a folder or an empty file, below `root`; links
/// are followed as in the container. Throws Error, naming both, if it neither exists nor can be
/// made.
enum class MountPoint { Folder, File };
void make_mount_point(const std::filesystem::path& root, const std::filesystem::path& target,
                      MountPoint what);

/// Makes everything that runtimes mount on or write exist below `root`, so that none of them has
/// to.
void add_mount_points(const std::filesystem::path& root);

/// The target of `name`, relative to `root` or absolute, in a container with that root: links in
/// all parts except the last are followed inside `root`. Parts that do not exist stay as they are.
std::filesystem::path resolve_in(const std::filesystem::path& root,
                                 const std::filesystem::path& name);

}  // namespace dlflow
