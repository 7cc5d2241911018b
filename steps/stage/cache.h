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
/// outputs of a run, or the workspace of a job that was promised it. Its access time is when it was
/// last wanted.
///
/// Objects are linked into runs, where a careless program may write to them, and hashing on every
/// use would cost more than the cache saves. So an object is sealed: the nanoseconds of its
/// modification time tell the first digits of its hash and its size. Whatever writes to it breaks
/// the seal, and it is hashed again before it is used again. A seal can be forged, so it proves
/// something of a file of this user alone: what others own, or may write to, is not taken. (Times
/// of change say nothing here: every link that a run has to the object, or gives up, changes them.)
namespace dlflow::steps {

/// Threads may share one, but for its construction.
class Cache {
 public:
  /// Opens the cache at `root`, made if need be. It holds at most `budget_bytes` (0: no limit).
  /// If it cannot be written to, what it has can still be used.
  Cache(const std::filesystem::path& root, uint64_t budget_bytes);

  /// The object with this hash, or nothing. It stays readable at the returned path while this
  /// object lives, whatever is evicted meanwhile.
  std::optional<std::filesystem::path> find(const std::string& sha256);

  /// Makes `file`, which is in the workspace and has this hash, an object, after making room for
  /// it. The file stays where it is, and may not be written to any more.
  void add(const std::filesystem::path& file, const std::string& sha256);

  /// One of many files to add at once.
  struct NewObject {
    std::filesystem::path file;
    std::string sha256;
    uint64_t bytes = 0;
  };
  void add(std::span<const NewObject> objects);

  /// Evicts what is not in use, least recently used first, until `bytes` more fit. Throws
  /// Error{InvalidInput} if even that is not enough.
  void make_room(uint64_t bytes);

  /// A JSON text kept under `name`, such as "urls/KEY"; nothing if there is none.
  std::optional<Json> note(const std::string& name) const;
  void write_note(const std::string& name, const Json& value);

  /// The lock that `key` stands for, waiting for it if need be. Throws Stopped.
  FileLock lock(const std::string& key, const std::string& purpose);

  /// Where the download that `key` stands for goes; private unless its lock is exclusive.
  std::filesystem::path partial(const std::string& key, const FileLock& lock);

  /// A new path for a temporary file, gone with this object.
  std::filesystem::path new_file();

  uint64_t budget_bytes() const { return budget_bytes_; }

 private:
  Workspace& workspace();
  std::filesystem::path object(const std::string& sha256) const;
  void publish(const NewObject& object);

  std::filesystem::path root_;
  uint64_t budget_bytes_;
  std::unique_ptr<Workspace> workspace_;  // none if the cache cannot be written to
  std::string why_read_only_;
  std::mutex adding_;  // threads of one process need not announce that they wait for each other
};

}  // namespace dlflow::steps
