#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

/// Which state of which file a path leads to, without reading it.
namespace dlflow {

/// The attributes of a file of which the kernel changes one whenever the content may have changed.
/// Size and time of modification alone prove nothing, since tools put an old time back; the time of
/// the last change of the inode (ctime) cannot be set.
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

/// Which file system it lies in. Each host has numbers of its own, so that this is in no
/// FileIdentity. Throws Error.
int64_t device_of(const std::filesystem::path& path);

/// Whether the kernel has set the times of a file, and not who made an image of a disk (squashfs,
/// erofs, ISO 9660, cramfs; also through FUSE): there, other content may have the same ones.
bool has_times_of_kernel(const std::filesystem::path& path);

/// The same of a file system of this type, see statfs(2).
bool keeps_times(uint64_t type, bool is_read_only);

/// "size mtime ctime inode", for a hash or a record.
std::string to_string(const FileIdentity& identity);

/// How long another change at this time might not show: a file that changed a moment ago may change
/// again within the same tick of its clock, and would look the same. A tick is two seconds on FAT,
/// one on Lustre and old disks, else some milliseconds. Nothing: it would show.
std::chrono::nanoseconds time_to_settle(const FileIdentity& identity);

/// The same where nobody knows the clock: two seconds.
bool is_settled(const FileIdentity& identity);

}  // namespace dlflow
