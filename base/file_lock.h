#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/handle.h"

/// Locks between the jobs that share a cache, on one machine or on a shared file system.
///
/// These are flock(2) locks: the kernel, or the file server, releases them when their owner dies,
/// so a lock is never taken over by guessing. A kill -9 would leave behind a lock file made with
/// O_EXCL, and another node cannot determine without clocks and heartbeats whether its owner lives;
/// a wrong takeover would let two jobs write to one file. If the file system has no flock (some
/// Lustre mounts; use link_lock.h for what must be exclusive there, too), a lock is granted but not
/// exclusive(): the cache stays correct, since its content only appears by rename; jobs merely do
/// the same work twice.
namespace dlflow {

/// The outcome of an attempt to lock an open file; None: its file system does not support flock.
enum class Flock { Taken, Busy, None };
Flock try_flock(int file);

class FileLock {
 public:
  /// Takes the lock unless another process has it. Meanwhile others see `purpose` ("downloads
  /// http://…"); if it is empty nothing is written, so a full disk does no harm. Throws Error if
  /// the file cannot be created, and if a link or another file, which stays, is in its place.
  static std::optional<FileLock> try_acquire(const std::filesystem::path& path,
                                             const std::string& purpose);

  /// Waits for the lock, and prints its owner on standard output. Calls `while_waiting` now and
  /// then; an exception from it ends the wait.
  static FileLock acquire(const std::filesystem::path& path, const std::string& purpose,
                          const std::function<void()>& while_waiting = {});

  /// Takes a shared lock; waits for an exclusive owner.
  static FileLock share(const std::filesystem::path& path);

  /// Like share, but returns nothing if another process has the lock exclusively.
  static std::optional<FileLock> try_share(const std::filesystem::path& path);

  /// No other process has this lock while the object lives.
  bool exclusive() const { return exclusive_; }

 private:
  FileLock(FileDescriptor file, bool exclusive) : file_(std::move(file)), exclusive_(exclusive) {}

  FileDescriptor file_;
  bool exclusive_;
};

/// The name of this process in files and locks: "HOST.PID".
std::string process_name();

}  // namespace dlflow
