#include "runtime/data/node_copy.h"

#include <fcntl.h>

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
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "runtime/data/binary_format.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kComplete = "complete";

std::string key_of(std::span<const CopySource> files) {
  Sha256 hash;
  for (const CopySource& file : files) {
    hash.update(file.sha256 + "  " + std::to_string(file.bytes) + "  " +
                file.path.filename().string() + "\n");
  }
  return hash.hex().substr(0, 32);
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

fs::path NodeCopy::lock_path() const { return node_lock_of(folder_); }

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
    const FileLock registry =
        lock_registry(root_);  // without it, nobody takes what is let go of here
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
    const uint64_t bytes = total_bytes(files);
    if (bytes > room_within(root_, budget_bytes)) throw_no_room(root_, bytes, budget_bytes);
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
    // Whoever comes next clears up.
  }
}

}  // namespace dlflow::runtime
