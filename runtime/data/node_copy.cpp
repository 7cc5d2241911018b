#include "runtime/data/node_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/archive/byte_source.h"
#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "base/units.h"
#include "runtime/data/binary_format.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kComplete = "complete";
constexpr const char* kLockEnding = ".lock";

/// Returns SCRATCH/dlflow-UID, and creates it, but not SCRATCH itself, which must be an existing
/// disk. Throws Error, also if others may write there.
fs::path own_node_folder(const NodeDisk& disk) {
  fs::path folder = disk.scratch / ("dlflow-" + std::to_string(::geteuid()));
  make_private_directory(folder);
  return folder;
}

/// Acquires the lock `path`, or returns nothing if it is held. Throws Error without lock support.
std::optional<FileLock> try_node_lock(const fs::path& path) {
  auto lock = FileLock::try_acquire(path, /*purpose=*/"");
  if (lock && !lock->exclusive()) {
    throw Error(Errc::InvalidInput, path.string() + ": this file system has no locks");
  }
  return lock;
}

/// Waits for the registry of `root`, an own_node_folder().
FileLock lock_registry(const fs::path& root) {
  while (true) {
    if (auto lock = try_node_lock(root / "registry")) return std::move(*lock);
    std::this_thread::sleep_for(5ms);
  }
}

/// Removes unused copies, except for that with the lock `but_for`. Requires the registry's lock.
void clear_up(const fs::path& root, const fs::path& but_for) {
  std::vector<fs::path> locks;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() == kLockEnding) locks.push_back(entry.path());
  }
  for (const fs::path& path : locks) {
    if (path == but_for) continue;
    const auto unused = try_node_lock(path);
    if (!unused) continue;
    remove_tree(fs::path(path).replace_extension());
    fs::remove(path);
  }
}

/// Throws Error{InvalidInput} if `bytes` exceed the rest of the budget. Requires the registry's
/// lock.
void require_room(const fs::path& root, uint64_t bytes, uint64_t budget_bytes) {
  if (budget_bytes == 0) return;
  uint64_t used = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) used += entry.file_size();
  }
  if (bytes <= budget_bytes - std::min(budget_bytes, used)) return;
  throw Error(Errc::InvalidInput, format_size(bytes) + " do not fit into the scratch_budget of " +
                                      format_size(budget_bytes) + ", of which " +
                                      format_size(used) + " is in use");
}

/// Creates a file and allocates `bytes` at once, if the file system can. Throws Error.
void make_file_of_length(const fs::path& path, uint64_t bytes) {
  const FileDescriptor file = open_or_throw(path, O_WRONLY | O_CREAT | O_EXCL);
  if (bytes == 0 || ::fallocate(file.get(), 0, 0, off_t(bytes)) == 0) return;
  if (errno == EOPNOTSUPP && ::ftruncate(file.get(), off_t(bytes)) == 0) return;
  throw_errno("cannot write " + path.string(), errno);
}

std::string key_of(std::span<const CopySource> files) {
  Sha256 hash;
  for (const CopySource& file : files) {
    hash.update(file.sha256 + "  " + std::to_string(file.bytes) + "  " +
                file.path.filename().string() + "\n");
  }
  return hash.hex().substr(0, 32);
}

bool is_binary_dataset(const fs::path& file) { return file.extension() == ".dlset"; }

/// Passes the content of `file` to `use` in parts, and returns its hash, as in CopySource.
std::string read_hashed(const fs::path& file, const std::function<void(std::string_view)>& use) {
  const std::unique_ptr<ByteSource> source = open_file(file);
  BinaryHash binary;
  Sha256 plain;
  std::string buffer(size_t{1} << 20, '\0');
  while (const size_t got = source->read(buffer)) {
    const std::string_view part = std::string_view(buffer).substr(0, got);
    is_binary_dataset(file) ? void(binary.update(part)) : void(plain.update(part));
    use(part);
  }
  return is_binary_dataset(file) ? binary.hex() : plain.hex();
}

/// Whether a copy is complete and undamaged.
bool is_whole(const fs::path& folder, std::span<const CopySource> files) {
  return fs::exists(folder / kComplete) &&
         std::all_of(files.begin(), files.end(), [&](const CopySource& file) {
           const fs::path copy = folder / file.path.filename();
           return fs::exists(copy) && read_hashed(copy, [](auto) {}) == file.sha256;
         });
}

/// Throws Error{Corrupt} if the hash of `file` is not the expected one.
void copy_into(const fs::path& folder, const CopySource& file) {
  const fs::path path = folder / file.path.filename();
  const FileDescriptor copy = open_or_throw(path, O_WRONLY);
  const std::string sha256 =
      read_hashed(file.path, [&](std::string_view part) { write_all(copy.get(), part, path); });
  if (sha256 == file.sha256) return;
  throw Error(Errc::Corrupt, file.path.string() + ": its SHA-256 does not match, or it changes");
}

}  // namespace

std::vector<CopySource> copy_sources(std::span<const fs::path> files) {
  std::vector<CopySource> sources;
  for (const fs::path& file : files) {
    const std::string sha256 =
        is_binary_dataset(file) ? read_binary_header(file).sha256 : sha256_file(file);
    sources.push_back({file, fs::file_size(file), sha256});
  }
  return sources;
}

uint64_t total_bytes(std::span<const CopySource> files) {
  uint64_t bytes = 0;
  for (const CopySource& file : files) bytes += file.bytes;
  return bytes;
}

NodeCopy::NodeCopy(std::span<const CopySource> files, const NodeDisk& disk)
    : root_(own_node_folder(disk)), folder_(root_ / key_of(files)) {
  try {
    while (!try_to_join(files, disk.budget_bytes)) std::this_thread::sleep_for(50ms);
  } catch (...) {
    leave();
    throw;
  }
}

NodeCopy::~NodeCopy() { leave(); }

fs::path NodeCopy::lock_path() const { return folder_.string() + kLockEnding; }

bool NodeCopy::try_to_join(std::span<const CopySource> files, uint64_t budget_bytes) {
  std::optional<FileLock> alone;
  {
    const FileLock registry = lock_registry(root_);
    clear_up(root_, lock_path());
    alone = try_node_lock(lock_path());
    if (!alone) use_ = FileLock::try_share(lock_path());
  }
  if (alone) {
    if (!is_whole(folder_, files)) make(files, budget_bytes);
    const FileLock registry = lock_registry(root_);  // nobody takes the lock in between
    alone.reset();
    use_ = FileLock::try_share(lock_path());
  } else if (use_ && !is_whole(folder_, files)) {
    throw Error(Errc::Corrupt, folder_.string() + ": damaged, and in use by another job");
  }
  return use_.has_value();
}

void NodeCopy::make(std::span<const CopySource> files, uint64_t budget_bytes) {
  {
    const FileLock registry = lock_registry(root_);
    remove_tree(folder_);
    require_room(root_, total_bytes(files), budget_bytes);
    make_directories(folder_);
    for (const CopySource& file : files)
      make_file_of_length(folder_ / file.path.filename(), file.bytes);
  }
  for (const CopySource& file : files) copy_into(folder_, file);
  write_file_atomic(folder_ / kComplete, "");
  made_ = true;
}

void NodeCopy::leave() noexcept {
  try {
    const FileLock registry = lock_registry(root_);
    use_.reset();
    const auto last = try_node_lock(lock_path());
    if (!last) return;
    remove_tree(folder_);
    fs::remove(lock_path());
  } catch (const std::exception&) {
    // The next process clears up.
  }
}

}  // namespace dlflow::runtime
