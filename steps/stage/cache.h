#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/file_lock.h"
#include "base/json.h"
#include "steps/stage/workspace.h"

/// The cache of staged files, shared by all jobs of a user on a machine or on a shared file system.
///
///   CACHE/objects/aa/SHA256   a file by its content, read-only
///   CACHE/urls, unpacked      notes: what an address held, what an archive holds
///   CACHE/partial/KEY         downloads that are not complete
///   CACHE/locks/KEY           one job at a time does the work that KEY stands for
///   CACHE/work/…              workspaces of running jobs
///
/// An object is complete once it has its name. It is *in use* while anything else links to it: the
/// outputs of a run, or the workspace of a job that will use it. Its access time is the time of its
/// last use.
///
/// Objects are linked into runs, where a careless program may write to them, and hashing on every
/// use would cost more than the cache saves. So an object is sealed: the nanoseconds of its
/// modification time encode the first digits of its hash and its size. Any write breaks the seal,
/// and the object is hashed again before its next use. A seal can be forged, so it is trusted only
/// for files of this user; files that others own or may write to are not used. (ctime is useless
/// here: each link that a run adds or removes changes it.)
namespace dlflow::steps {

/// Thread-safe, except for construction.
class Cache {
 public:
  /// Opens the cache at `root`, creating it if needed. It holds at most `budget_bytes` (0: no
  /// limit). A read-only cache can still be used for its present content.
  Cache(const std::filesystem::path& root, uint64_t budget_bytes);

  /// The object with this hash, or nothing. It stays readable at the returned path while this Cache
  /// lives, even if it is evicted meanwhile.
  std::optional<std::filesystem::path> find(const std::string& sha256);

  /// Makes room and turns `file`, which is in the workspace and has this hash, into an object. The
  /// file stays in its place and must not be written to any more.
  void add(const std::filesystem::path& file, const std::string& sha256);

  /// One of many files to add at once.
  struct NewObject {
    std::filesystem::path file;
    std::string sha256;
    uint64_t bytes = 0;
  };
  void add(std::span<const NewObject> objects);

  /// Evicts objects that are not in use, least recently used first, until `bytes` more fit. Throws
  /// Error{InvalidInput} if evicting all of them is not enough.
  void make_room(uint64_t bytes);

  /// The JSON stored under `name`, such as "urls/KEY"; nothing if there is none.
  std::optional<Json> note(const std::string& name) const;
  void write_note(const std::string& name, const Json& value);

  /// Waits for the lock on `key`. Throws Stopped.
  FileLock lock(const std::string& key, const std::string& purpose);

  /// The file for the download with this key; a private one unless `lock` is exclusive.
  std::filesystem::path partial(const std::string& key, const FileLock& lock);

  /// A new path for a temporary file, which is removed with this object.
  std::filesystem::path new_file();

  uint64_t budget_bytes() const { return budget_bytes_; }

 private:
  Workspace& workspace();
  std::filesystem::path object(const std::string& sha256) const;
  void publish(const NewObject& object);

  std::filesystem::path root_;
  uint64_t budget_bytes_;
  std::unique_ptr<Workspace> workspace_;  // null if the cache is read-only
  std::string why_read_only_;
  std::mutex adding_;  // taken first: threads of one process then wait without a message
};

/// Removes unused objects and abandoned downloads, least recently used first, until the content of
/// `cache` and `bytes` more take at most `budget_bytes`. The caller holds the budget lock. If
/// removing all of them would not be enough, removes nothing and throws Error{InvalidInput} with
/// the figures.
void evict(const std::filesystem::path& cache, uint64_t bytes, uint64_t budget_bytes);

}  // namespace dlflow::steps
