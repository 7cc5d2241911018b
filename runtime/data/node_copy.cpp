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
#include "base/sha256.h"
#include "base/units.h"
#include "runtime/data/binary_dataset.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kLockEnding = ".lock";
constexpr const char* kComplete = "complete";

/// Only this user can have made it, and only this user can write to it.
void require_own(const fs::path& folder) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) throw_errno("cannot read " + folder.string(), errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return;
  throw Error(Errc::InvalidInput,
              folder.string() + " is not a folder of this user alone; remove it");
}

/// Made if need be, but not what it is in: a disk that is not there is not to be made up.
fs::path own_folder(const fs::path& scratch) {
  fs::path folder = scratch / ("dlflow-" + std::to_string(::geteuid()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno("cannot create folder " + folder.string(), errno);
  }
  require_own(folder);
  return folder;
}

std::string key_of(std::span<const CopySource> files) {
  Sha256 hash;
  for (const CopySource& file : files) {
    hash.update(file.sha256 + "  " + std::to_string(file.bytes) + "  " +
                file.path.filename().string() + "\n");
  }
  return hash.hex().substr(0, 32);
}

/// The lock, or nothing if somebody else has it. Throws where there are no locks.
std::optional<FileLock> try_lock(const fs::path& path) {
  auto lock = FileLock::try_acquire(path, /*purpose=*/"");
  if (lock && !lock->exclusive()) {
    throw Error(Errc::InvalidInput, path.string() + ": this file system has no locks");
  }
  return lock;
}

bool is_binary_dataset(const fs::path& file) { return file.extension() == ".dlset"; }

/// Hands the content of `file` to `use`, part by part, and returns its hash, as CopySource has it.
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

/// Whether all of a copy is there and as it should be.
bool is_whole(const fs::path& folder, std::span<const CopySource> files) {
  return fs::exists(folder / kComplete) &&
         std::all_of(files.begin(), files.end(), [&](const CopySource& file) {
           const fs::path copy = folder / file.path.filename();
           return fs::exists(copy) && read_hashed(copy, [](auto) {}) == file.sha256;
         });
}

/// Takes the space for `bytes` at once, where the file system can do that.
void make_file(const fs::path& path, uint64_t bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot write " + path.string(), errno);
  if (bytes == 0 || ::fallocate(file.get(), 0, 0, off_t(bytes)) == 0) return;
  if (errno == EOPNOTSUPP && ::ftruncate(file.get(), off_t(bytes)) == 0) return;
  throw_errno("cannot write " + path.string(), errno);
}

/// Throws Error{Corrupt} if `file` has not the hash that it should have.
void copy_into(const fs::path& folder, const CopySource& file) {
  const fs::path path = folder / file.path.filename();
  const FileDescriptor copy(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!copy) throw_errno("cannot write " + path.string(), errno);
  const std::string sha256 =
      read_hashed(file.path, [&](std::string_view part) { write_all(copy.get(), part, path); });
  if (sha256 == file.sha256) return;
  throw Error(Errc::Corrupt, file.path.string() + ": its SHA-256 does not hold, or it changes");
}

uint64_t bytes_below(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

void require_budget(const fs::path& root, uint64_t bytes, uint64_t budget_bytes) {
  const uint64_t used = bytes_below(root);
  if (budget_bytes == 0 || (bytes <= budget_bytes && used <= budget_bytes - bytes)) return;
  throw Error(Errc::InvalidInput, format_size(bytes) + " do not fit into the scratch_budget of " +
                                      format_size(budget_bytes) + ", of which " +
                                      format_size(used) + " is in use");
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
    : root_(own_folder(disk.scratch)), folder_(root_ / key_of(files)) {
  try {
    while (!try_to_join(files, disk.budget_bytes)) std::this_thread::sleep_for(50ms);
  } catch (...) {
    leave();
    throw;
  }
}

NodeCopy::~NodeCopy() { leave(); }

fs::path NodeCopy::lock_path() const { return folder_.string() + kLockEnding; }

FileLock NodeCopy::lock_registry() const {
  while (true) {
    if (auto lock = try_lock(root_ / "registry")) return std::move(*lock);
    std::this_thread::sleep_for(5ms);
  }
}

bool NodeCopy::try_to_join(std::span<const CopySource> files, uint64_t budget_bytes) {
  std::optional<FileLock> alone;
  {
    const FileLock registry = lock_registry();
    clear_up();
    alone = try_lock(lock_path());
    if (!alone) use_ = FileLock::try_share(lock_path());
  }
  if (alone) {
    if (!is_whole(folder_, files)) make(files, budget_bytes);
    const FileLock registry = lock_registry();  // without it, nobody takes what is let go of here
    alone.reset();
    use_ = FileLock::try_share(lock_path());
  } else if (use_ && !is_whole(folder_, files)) {
    throw Error(Errc::Corrupt, folder_.string() + ": damaged, and in use by another job");
  }
  return use_.has_value();
}

void NodeCopy::make(std::span<const CopySource> files, uint64_t budget_bytes) {
  {
    const FileLock registry = lock_registry();
    fs::remove_all(folder_);
    require_budget(root_, total_bytes(files), budget_bytes);
    make_directories(folder_);
    for (const CopySource& file : files) make_file(folder_ / file.path.filename(), file.bytes);
  }
  for (const CopySource& file : files) copy_into(folder_, file);
  write_file_atomic(folder_ / kComplete, "");
  made_ = true;
}

void NodeCopy::clear_up() const {
  std::vector<fs::path> locks;
  for (const auto& entry : fs::directory_iterator(root_)) {
    if (entry.path().extension() == kLockEnding) locks.push_back(entry.path());
  }
  for (const fs::path& path : locks) {
    if (path == lock_path()) continue;
    const auto unused = try_lock(path);
    if (!unused) continue;
    fs::remove_all(fs::path(path).replace_extension());
    fs::remove(path);
  }
}

void NodeCopy::leave() noexcept {
  try {
    const FileLock registry = lock_registry();
    use_.reset();
    const auto last = try_lock(lock_path());
    if (!last) return;
    fs::remove_all(folder_);
    fs::remove(lock_path());
  } catch (const std::exception&) {
    // Whoever comes next clears up.
  }
}

}  // namespace dlflow::runtime
