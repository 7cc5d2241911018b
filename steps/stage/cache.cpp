#include "steps/stage/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/remove_tree.h"
#include "base/units.h"
#include "steps/environment/place_file.h"
#include "steps/stage/seal.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// Syncs `objects` before they get their names, so that a named object is complete even after a
/// power cut. If there are many, syncs their whole file system at once.
void sync_files(std::span<const Cache::NewObject> objects) {
  constexpr size_t kMany = 16;
  for (const Cache::NewObject& object : objects) {
    const FileDescriptor file = open_or_throw(object.file, O_RDONLY);
    const bool all = objects.size() >= kMany;
    if ((all ? ::syncfs(file.get()) : ::fsync(file.get())) != 0) {
      throw_errno("cannot write " + object.file.string(), errno);
    }
    if (all) return;
  }
}

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

Cache::Cache(const fs::path& root, uint64_t budget_bytes)
    : root_(private_part(root)), budget_bytes_(budget_bytes) {
  try {
    make_directories(root);
    if (root_ != root) make_private_directory(root_);
    for (const char* folder : {"objects", "urls", "unpacked", "partial", "locks", "work"}) {
      make_directories(root_ / folder);
    }
    Workspace::sweep(root_);
    workspace_ = std::make_unique<Workspace>(root_);
  } catch (const Error& error) {
    why_read_only_ = error.what();
  }
}

Workspace& Cache::workspace() {
  if (workspace_) return *workspace_;
  throw Error(Errc::InvalidInput,
              "the cache " + root_.string() + " lacks some of the files, and " + why_read_only_);
}

fs::path Cache::object(const std::string& sha256) const {
  return root_ / "objects" / sha256.substr(0, 2) / sha256;
}

std::optional<fs::path> Cache::find(const std::string& sha256) {
  const fs::path path = object(sha256);
  if (!fs::exists(fs::symlink_status(path))) return std::nullopt;
  if (!is_intact(path, sha256)) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  mark_used(path);
  if (!workspace_) return path;
  fs::path pinned = workspace_->new_file();
  try {
    place_file(path, pinned);
  } catch (const Error& error) {
    if (error.code() == Errc::NotFound) return std::nullopt;  // just evicted
    throw;
  }
  return pinned;
}

void Cache::add(const fs::path& file, const std::string& sha256) {
  const NewObject object{file, sha256, fs::file_size(file)};
  add(std::span(&object, 1));
}

void Cache::add(std::span<const NewObject> objects) {
  sync_files(objects);
  uint64_t total_bytes = 0;
  for (const NewObject& object : objects) {
    seal(object.file, object.sha256);
    total_bytes += object.bytes;
  }
  const std::scoped_lock alone(adding_);
  const FileLock adding = lock("budget", "makes room");
  if (budget_bytes_ > 0) evict(root_, total_bytes, budget_bytes_);
  for (const NewObject& object : objects) publish(object);
}

void Cache::publish(const NewObject& added) {
  const fs::path target = object(added.sha256);
  make_directories(target.parent_path());
  if (fs::exists(fs::symlink_status(target))) {
    if (is_intact(target, added.sha256)) return;
    remove_tree(target);  // damaged, but not noticed before
  }
  if (::link(added.file.c_str(), target.c_str()) == 0) return;
  const fs::path copy = workspace().new_file();  // the file system has no links
  place_copy(added.file, copy);
  seal(copy, added.sha256);
  if (::rename(copy.c_str(), target.c_str()) != 0) {
    throw_errno("cannot write " + target.string(), errno);
  }
}

void Cache::make_room(uint64_t bytes) {
  if (budget_bytes_ == 0) return;
  const std::scoped_lock alone(adding_);
  const FileLock making_room = lock("budget", "makes room");
  evict(root_, bytes, budget_bytes_);
}

std::optional<Json> Cache::note(const std::string& name) const {
  const auto text = read_private_file(root_ / name);
  if (!text) return std::nullopt;
  constexpr JsonLimits kLimits{.max_bytes = size_t{1} << 30};  // archives of millions of files
  Json value = parse_json(*text, kLimits);
  return value.is_object() ? std::optional(std::move(value)) : std::nullopt;
}

void Cache::write_note(const std::string& name, const Json& value) {
  workspace();
  write_file_atomic(root_ / name, value.dump());
}

FileLock Cache::lock(const std::string& key, const std::string& purpose) {
  workspace();
  return FileLock::acquire(root_ / "locks" / key, purpose, throw_if_stopped);
}

fs::path Cache::partial(const std::string& key, const FileLock& lock) {
  return lock.exclusive() ? root_ / "partial" / key : workspace().new_file();
}

fs::path Cache::new_file() { return workspace().new_file(); }

}  // namespace dlflow::steps
