#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include "base/file_lock.h"

/// The folder of one process for files that are not yet, or must stay, in the cache.
namespace dlflow::steps {

/// A folder CACHE/work/HOST.PID.RANDOM that no other process touches while this object lives, and
/// that is removed afterwards. A lock on its file `lease` shows others that its owner lives.
class Workspace {
 public:
  /// Throws Error if `cache` is read-only.
  explicit Workspace(const std::filesystem::path& cache);
  ~Workspace();

  const std::filesystem::path& path() const { return path_; }

  /// A new path in the workspace. Thread-safe.
  std::filesystem::path new_file();

  /// Removes the workspaces below `cache` whose owners are dead.
  static void sweep(const std::filesystem::path& cache);

 private:
  std::filesystem::path path_;
  std::optional<FileLock> lease_;
  std::atomic<size_t> num_files_ = 0;
};

}  // namespace dlflow::steps
