#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

/// The identity of a file and its state, determined without reading it.
namespace dlflow {

/// Attributes of a file: if the content may have changed, the kernel has changed at least one. Size
/// and modification time alone prove nothing, since tools restore old times, but the time of the
/// last change of the inode (ctime) cannot be set.
struct FileIdentity {
  int64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  int64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// The identity of the file at `path`, following links. Throws Error.
FileIdentity identity_of(const std::filesystem::path& path);

/// The identity of `path` itself, even if it is a link. Throws Error.
FileIdentity identity_of_link(const std::filesystem::path& path);

/// The file system of a path. Each host numbers file systems differently, so FileIdentity does not
/// include this. Throws Error.
int64_t device_of(const std::filesystem::path& path);

/// Whether the kernel sets the times of a file. In a disk image (squashfs, erofs, ISO 9660, cramfs;
/// also through FUSE) its author set them, so other content may have the same times.
bool has_times_of_kernel(const std::filesystem::path& path);

/// The same for a file system of this type, see statfs(2).
bool keeps_times(uint64_t type, bool is_read_only);

/// "size mtime ctime inode", for a hash or a record.
std::string to_string(const FileIdentity& identity);

/// The remaining time in which a further change may be invisible: within the same tick of the file
/// system's clock, the file would look the same. A tick is two seconds on FAT, one on Lustre and
/// old disks, else some milliseconds. Zero: a change would be visible.
std::chrono::nanoseconds time_to_settle(const FileIdentity& identity);

/// Whether a further change would be visible with any clock: more than two seconds have passed.
bool is_settled(const FileIdentity& identity);

}  // namespace dlflow
