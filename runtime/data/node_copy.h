#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_lock.h"

/// Copies of data on a node's own disk, made once per node and shared by all jobs of a user there:
///
///   SCRATCH/dlflow-UID/         only this user's, mode 0700
///     registry                  a lock held for moments: by who comes, goes or clears up
///     KEY/                      the files, with their names; KEY is a hash of names, sizes and
///                               contents, so that it does not matter where they were copied from
///     KEY/complete              written last; without it, KEY is what a kill left
///     KEY.lock                  exclusive: KEY is being made or proven. Shared: it is in use
///
/// Nobody keeps books that a kill -9 could falsify: whether a copy is in use is whether its lock
/// is, and how much is there is how long the files are. Files get their full length before the
/// first byte is copied. KEY stands for any list of files, so that a node may hold a part of a set.
namespace dlflow::runtime {

struct NodeDisk {
  std::filesystem::path scratch;  ///< a folder that is there
  uint64_t budget_bytes = 0;      ///< of all that this user has there; 0: no limit
};

/// A file to copy; its hash is what its content is addressed by and compared with.
struct CopySource {
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::string sha256;  ///< of a .dlset, as its header has it
};

/// Sizes and hashes of `files`. A .dlset tells its own; others are read.
std::vector<CopySource> copy_sources(std::span<const std::filesystem::path> files);

uint64_t total_bytes(std::span<const CopySource> files);

/// One process's share in a copy. While this object lives the copy stays; the last one to go takes
/// it away, and a process that comes takes away what killed ones left.
class NodeCopy {
 public:
  /// Makes the copy, or finds it and proves it by its hashes; waits for whoever makes it just now.
  /// Throws Error with the reason why there is none: no such disk, full, read-only, over budget, a
  /// source that is damaged. Then nothing was left behind.
  NodeCopy(std::span<const CopySource> files, const NodeDisk& disk);
  ~NodeCopy();

  /// Holds the files under their names.
  const std::filesystem::path& folder() const { return folder_; }

  /// This object made it; else it was there.
  bool made() const { return made_; }

 private:
  /// False: somebody makes or proves the copy just now.
  bool try_to_join(std::span<const CopySource> files, uint64_t budget_bytes);
  /// Makes the copy anew; its lock is ours alone.
  void make(std::span<const CopySource> files, uint64_t budget_bytes);
  void leave() noexcept;

  std::filesystem::path lock_path() const;

  std::filesystem::path root_, folder_;
  std::optional<FileLock> use_;  // shared with all who use the copy
  bool made_ = false;
};

}  // namespace dlflow::runtime
