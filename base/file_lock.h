#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/handle.h"

/// Locks between the jobs that share a cache, on one machine or on a shared file system.
///
/// These are flock(2) locks: the kernel, or the file server, releases them when their owner dies,
/// so a lock is never taken over by guessing. A lock file made with O_EXCL would be left behind by
/// a kill -9, and whether its owner lives cannot be told from another node without clocks and
/// heartbeats; taking it over wrongly would let two jobs write to one file.
/// Where the file system has no flock (some Lustre mounts; link_lock.h is for what must be
/// exclusive there, too) a lock is granted but not exclusive(): the cache stays correct, since all
/// it holds appears by rename; jobs only do the same work twice.
namespace dlflow {

/// The outcome of an attempt to lock an open file; None: its file system has no flock.
enum class Flock { Taken, Busy, None };
Flock try_flock(int file);

class FileLock {
 public:
  /// Takes the lock unless another process has it. Others see `purpose` meanwhile ("downloads
  /// http://…"); without one nothing is written, and so a full disk does no harm. Throws Error if
  /// the file cannot be made, and if a link or another file is at its place, which stays as it is.
  static std::optional<FileLock> try_acquire(const std::filesystem::path& path,
                                             const std::string& purpose);

  /// Waits for the lock, and prints its owner on standard output. `while_waiting` is called now and
  /// then; an exception of it ends the wait.
  static FileLock acquire(const std::filesystem::path& path, const std::string& purpose,
                          const std::function<void()>& while_waiting = {});

  /// Takes the lock together with others who share it; waits for an exclusive owner.
  static FileLock share(const std::filesystem::path& path);

  /// As share, or nothing if another process has it alone.
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
