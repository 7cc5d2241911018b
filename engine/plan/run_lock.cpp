#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

fs::path lock_file(const fs::path& run_directory) { return run_directory / "lock"; }

/// A reader may have no right to write there: the lock itself does not need it.
FileDescriptor open_lock(const fs::path& run_directory) {
  const fs::path file = lock_file(run_directory);
  FileDescriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!descriptor) descriptor.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) throw_errno("cannot open " + file.string(), errno);
  return descriptor;
}

/// Says who holds it; only for the message of the one who waits, so a failure does not matter.
void sign(const FileDescriptor& file) {
  const std::string text = "process " + std::to_string(::getpid()) + " on " + host_name() + "\n";
  if (::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), text.data(), text.size(), 0) < 0) {
    return;
  }
}

}  // namespace

std::optional<RunLock> RunLock::try_acquire(const fs::path& run_directory) {
  FileDescriptor file = open_lock(run_directory);
  const Flock flock = try_flock(file.get());
  if (flock == Flock::Busy) return std::nullopt;
  std::optional<LinkLock> link;
  const bool alone = flock == Flock::Taken && !has_local_flock(run_directory);
  const bool may_write = ::access(run_directory.c_str(), W_OK) == 0;
  if (!alone && may_write) {
    link = LinkLock::try_acquire(lock_file(run_directory).string() + ".owner");
    if (!link) return std::nullopt;
  }
  sign(file);
  return RunLock(std::move(file), std::move(link));
}

RunLock::RunLock(const fs::path& run_directory, std::chrono::milliseconds patience) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (auto acquired = try_acquire(run_directory)) {
      *this = std::move(*acquired);
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(10ms);
  }
  const auto holder = read_file_if_exists(lock_file(run_directory));
  throw Error(Errc::Unavailable, "another dlflow is at work on " + run_directory.string() + " (" +
                                     std::string(trim(holder.value_or("unknown"))) +
                                     "); watch it with `dlflow status --watch`, or end it first");
}

}  // namespace dlflow
