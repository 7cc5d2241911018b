#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

/// The identity of a file and its state, found without reading it.
namespace dlflow {

/// Attributes of a file of which the kernel changes at least one whenever the content may have
/// changed. Size and time of modification alone prove nothing, since tools restore old times; the
/// time of the last change of the inode (ctime) cannot be set.
struct FileIdentity {
  int64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  int64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

/// Of the file that `path` leads to, through links. Throws Error.
FileIdentity identity_of(const std::filesystem::path& path);

/// Of `path` itself, if it is a link. Throws Error.
FileIdentity identity_of_link(const std::filesystem::path& path);

/// The file system of a path. Each host numbers file systems in its own way, so this is in no
/// FileIdentity. Throws Error.
int64_t device_of(const std::filesystem::path& path);

/// Whether the kernel sets the times of a file. In an image of a disk (squashfs, erofs, ISO 9660,
/// cramfs; also through FUSE) its author did, so other content may have the same times.
bool has_times_of_kernel(const std::filesystem::path& path);

/// The same for a file system of this type, see statfs(2).
bool keeps_times(uint64_t type, bool is_read_only);

/// "size mtime ctime inode", for a hash or a record.
std::string to_string(const FileIdentity& identity);

/// The time within which another change may be invisible: a file that changed a moment ago may
/// change again within the same tick of its clock, and would look the same. A tick is two seconds
/// on FAT, one on Lustre and old disks, else some milliseconds. Nothing: a change would be visible.
std::chrono::nanoseconds time_to_settle(const FileIdentity& identity);

/// The same for an unknown clock: two seconds.
bool is_settled(const FileIdentity& identity);

}  // namespace dlflow
