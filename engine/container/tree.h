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

/// The digest of an image that lies in the folder `root`: "sha256:" and hash_tree() without what
/// add_mount_points() makes there, since runtimes put the host's files in those places, and with
/// the names of pipes, sockets, devices and empty folders elsewhere.
/// Throws Error.
std::string folder_digest(const std::filesystem::path& root,
                          const std::function<std::string(const std::filesystem::path&)>& sha256);

/// Whether nothing below `root`, itself included, has changed since `file` was made or changed, by
/// the times of one file system: those of two are of two clocks, and prove nothing. Reads no file.
bool is_unchanged_since(const std::filesystem::path& root, const std::filesystem::path& file);

/// What changes with whatever changes below `root`, itself included: names, sizes, times and inodes
/// of all that is there. Reads no file. Throws std::exception.
std::string tree_identity(const std::filesystem::path& root);

/// How many files and links with content there are, their bytes and the newest time of
/// modification: what differs once a program has written something. Reads no file.
std::string tree_state(const std::filesystem::path& root);

/// Takes the permission to write from all that is below `root`, itself included.
void make_read_only(const std::filesystem::path& root);

/// Makes the folder (or the empty file) `target` of a container exist below `root`, to be mounted
/// on: links are followed as the container sees them. Throws Error, naming both, if it is neither
/// there nor can be made.
enum class MountPoint { Folder, File };
void make_mount_point(const std::filesystem::path& root, const std::filesystem::path& target,
                      MountPoint what);

/// Makes what every runtime mounts on or writes exist below `root`, so that none of them has to.
void add_mount_points(const std::filesystem::path& root);

/// Where `name`, relative to `root` or absolute, leads in a container whose root that is: links in
/// all but the last part are followed inside `root`. Parts that do not exist stay as they are.
std::filesystem::path resolve_in(const std::filesystem::path& root,
                                 const std::filesystem::path& name);

}  // namespace dlflow
