#include "runtime/data/node_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/remove_tree.h"
#include "base/units.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kLockEnding = ".lock";

uint64_t bytes_below(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

}  // namespace

fs::path own_node_folder(const NodeDisk& disk) {
  fs::path folder = disk.scratch / ("dlflow-" + std::to_string(::geteuid()));
  make_private_directory(folder);
  return folder;
}

fs::path node_lock_of(const fs::path& folder) { return folder.string() + kLockEnding; }

FileLock lock_registry(const fs::path& root) {
  while (true) {
    if (auto lock = try_node_lock(root / "registry")) return std::move(*lock);
    std::this_thread::sleep_for(5ms);
  }
}

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

std::optional<FileLock> try_node_lock(const fs::path& path) {
  auto lock = FileLock::try_acquire(path, /*purpose=*/"");
  if (lock && !lock->exclusive()) {
    throw Error(Errc::InvalidInput, path.string() + ": this file system has no locks");
  }
  return lock;
}

uint64_t room_within(const fs::path& root, uint64_t budget_bytes) {
  if (budget_bytes == 0) return UINT64_MAX;
  return budget_bytes - std::min(budget_bytes, bytes_below(root));
}

void throw_no_room(const fs::path& root, uint64_t bytes, uint64_t budget_bytes) {
  throw Error(Errc::InvalidInput, format_size(bytes) + " do not fit into the scratch_budget of " +
                                      format_size(budget_bytes) + ", of which " +
                                      format_size(bytes_below(root)) + " is in use");
}

void make_file_of_length(const fs::path& path, uint64_t bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) throw_errno("cannot write " + path.string(), errno);
  if (bytes == 0 || ::fallocate(file.get(), 0, 0, off_t(bytes)) == 0) return;
  if (errno == EOPNOTSUPP && ::ftruncate(file.get(), off_t(bytes)) == 0) return;
  throw_errno("cannot write " + path.string(), errno);
}

}  // namespace dlflow::runtime
