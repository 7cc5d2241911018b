#include "steps/stage/eviction.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/units.h"
#include "steps/stage/workspace.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

struct Candidate {
  fs::path path;
  bool is_partial = false;
  uint64_t bytes = 0;
  timespec last_used{};
};

struct Contents {
  std::vector<Candidate> evictable;
  uint64_t total_bytes = 0;
  uint64_t evictable_bytes = 0;

  void add_in_use(const struct stat& info) { total_bytes += uint64_t(info.st_size); }

  void add_evictable(const fs::path& path, bool is_partial, const struct stat& info) {
    add_in_use(info);
    evictable.push_back({path, is_partial, uint64_t(info.st_size), info.st_atim});
    evictable_bytes += uint64_t(info.st_size);
  }
};

/// Locks a partial download so that nobody continues it. The holder of lock KEY owns the download,
/// its note KEY.json, and the note's temporary file. Nothing if it is being downloaded.
std::optional<FileLock> hold_partial(const fs::path& cache, const fs::path& partial) {
  const std::string name = partial.filename();
  auto lock = FileLock::try_acquire(cache / "locks" / name.substr(0, name.find('.', 1)), "evicts");
  if (lock && !lock->exclusive()) lock.reset();
  return lock;
}

/// False if a job has started to download it.
bool remove(const fs::path& cache, const Candidate& candidate) {
  std::optional<FileLock> held;
  if (candidate.is_partial && !(held = hold_partial(cache, candidate.path))) return false;
  // A job that links to the object at this moment keeps its link; the object must be cached again.
  ::unlink(candidate.path.c_str());
  return true;
}

Contents list(const fs::path& cache) {
  Contents contents;
  std::error_code error;
  struct stat info {};
  for (const auto& entry : fs::recursive_directory_iterator(cache / "objects", error)) {
    if (::lstat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (info.st_nlink > 1) {
      contents.add_in_use(info);
    } else {
      contents.add_evictable(entry.path(), false, info);
    }
  }
  for (const auto& entry : fs::directory_iterator(cache / "partial", error)) {
    // A download in progress has made room for its whole file, or is about to.
    if (!hold_partial(cache, entry.path())) continue;
    if (::lstat(entry.path().c_str(), &info) == 0) contents.add_evictable(entry.path(), true, info);
  }
  return contents;
}

}  // namespace

void evict(const fs::path& cache, uint64_t bytes, uint64_t budget_bytes) {
  Workspace::sweep(cache);
  Contents contents = list(cache);
  const uint64_t in_use_bytes = contents.total_bytes - contents.evictable_bytes;
  if (bytes > budget_bytes || in_use_bytes > budget_bytes - bytes) {
    throw Error(
        Errc::InvalidInput,
        "the cache " + cache.string() + " may hold " + format_size(budget_bytes) + ", of which " +
            format_size(in_use_bytes) + " is in use by runs; " + format_size(bytes) +
            " more do not fit. Raise the cache's budget in the profile, or remove old runs");
  }
  std::sort(contents.evictable.begin(), contents.evictable.end(),
            [](const Candidate& a, const Candidate& b) {
              return std::pair(a.last_used.tv_sec, a.last_used.tv_nsec) <
                     std::pair(b.last_used.tv_sec, b.last_used.tv_nsec);
            });
  uint64_t total_bytes = contents.total_bytes;
  for (const Candidate& candidate : contents.evictable) {
    if (total_bytes <= budget_bytes - bytes) break;
    if (remove(cache, candidate)) total_bytes -= candidate.bytes;
  }
}

}  // namespace dlflow::steps
