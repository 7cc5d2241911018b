#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include "base/file_lock.h"

/// Where one process keeps what is not yet, or must stay, in the cache.
namespace dlflow::steps {

/// A folder CACHE/work/HOST.PID.RANDOM that no other process touches while this object lives, and
/// that is gone afterwards. A lock on its file `lease` tells others that its owner lives.
class Workspace {
 public:
  /// Throws Error if `cache` cannot be written to.
  explicit Workspace(const std::filesystem::path& cache);
  ~Workspace();

  const std::filesystem::path& path() const { return path_; }

  /// A path in the workspace that was not given out before. Any thread may call.
  std::filesystem::path new_file();

  /// Removes the workspaces below `cache` whose owners are dead.
  static void sweep(const std::filesystem::path& cache);

 private:
  std::filesystem::path path_;
  std::optional<FileLock> lease_;
  std::atomic<size_t> num_files_ = 0;
};

}  // namespace dlflow::steps
