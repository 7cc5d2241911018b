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
///     registry                  a lock held briefly: to join, to leave or to clear up
///     KEY/                      the files, with their names; KEY is a hash of names, sizes and
///                               contents, independent of where they were copied from
///     KEY/complete              written last; without it, KEY was left by a killed process
///     KEY.lock                  exclusive: KEY is being made or verified. Shared: it is in use
///
/// No state is stored that a kill -9 could falsify: a copy is in use while its lock is held, and
/// the used space is the length of the files. Files get their full length before the first byte is
/// copied. KEY stands for any list of files, so a node may hold a part of a set.
namespace dlflow::runtime {

struct NodeDisk {
  std::filesystem::path scratch;  ///< an existing folder
  uint64_t budget_bytes = 0;      ///< for all copies of this user; 0: no limit
};

/// A file to copy; its hash identifies and verifies its content.
struct CopySource {
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::string sha256;  ///< for a .dlset, the hash in its header
};

/// Returns sizes and hashes of `files`. A .dlset contains its hash; other files are read.
std::vector<CopySource> copy_sources(std::span<const std::filesystem::path> files);

uint64_t total_bytes(std::span<const CopySource> files);

/// One process's use of a copy. The copy stays while this object lives; the last user removes it,
/// and each new process removes copies that killed ones left.
class NodeCopy {
 public:
  /// Makes the copy, or finds it and verifies its hashes; waits while another process makes it.
  /// Throws Error with the reason if there is no copy: no such disk, full, read-only, over budget,
  /// a damaged source. Nothing is left behind then.
  NodeCopy(std::span<const CopySource> files, const NodeDisk& disk);
  ~NodeCopy();

  /// The folder with the files under their names.
  const std::filesystem::path& folder() const { return folder_; }

  /// True if this object made the copy, false if it existed.
  bool made() const { return made_; }

 private:
  /// False if another process is making or verifying the copy.
  bool try_to_join(std::span<const CopySource> files, uint64_t budget_bytes);
  /// Makes the copy anew. Requires its exclusive lock.
  void make(std::span<const CopySource> files, uint64_t budget_bytes);
  void leave() noexcept;

  std::filesystem::path lock_path() const;

  std::filesystem::path root_, folder_;
  std::optional<FileLock> use_;  // shared by all users of the copy
  bool made_ = false;
};

}  // namespace dlflow::runtime
