#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

/// A lock between processes on several nodes, for file systems where flock(2) does not work, or
/// works within one node only: a file that link(2) creates atomically, with its owner in it.
///
/// A kill -9 leaves the file behind. So its owner touches it every ten seconds. It counts as left
/// behind if it was not touched for kLockLease, by the file system's own clock, or if its owner was
/// a process of this host that has ended. Timing cannot be certain: an owner that is stopped for
/// longer than the lease loses the lock without notice. Where flock works, use FileLock.
namespace dlflow {

inline constexpr std::chrono::seconds kLockLease{120};

class LinkLock {
 public:
  /// Takes the lock unless another process has it. Throws Error if files beside `path` cannot be
  /// created.
  static std::optional<LinkLock> try_acquire(const std::filesystem::path& path);

 private:
  class Hold;
  explicit LinkLock(std::unique_ptr<Hold> hold);

 public:
  LinkLock(LinkLock&&) noexcept;
  LinkLock& operator=(LinkLock&&) noexcept;
  ~LinkLock();

 private:
  std::unique_ptr<Hold> hold_;
};

/// Whether mount options show that flock works only within this node: "localflock" of Lustre,
/// "nolock" and "local_lock=flock" of NFS.
bool keeps_locks_local(std::string_view mount_options);

/// The same for the file system of `path`, with its mount options at the first call.
bool has_local_flock(const std::filesystem::path& path);

}  // namespace dlflow
