#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
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

constexpr std::string_view kSignature = "process ";

/// The run may be another user's, and sign() empties the file: a link, or a file without our
/// signature, may be any file of the reader's.
void require_lock_file(int file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0) throw_errno("cannot read " + path.string(), errno);
  std::array<char, kSignature.size()> start{};
  const ssize_t got =
      S_ISREG(info.st_mode) ? ::pread(file, start.data(), start.size(), 0) : ssize_t{-1};
  if (got >= 0 && kSignature.starts_with(std::string_view(start.data(), size_t(got)))) return;
  throw Error(Errc::InvalidInput,
              path.string() +
                  " is not a lock file; remove it when no dlflow process is working on the run");
}

/// Falls back to read-only, which is enough for flock(2), if the reader may not write there.
FileDescriptor open_lock(const fs::path& run_directory) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const fs::path file = lock_file(run_directory);
  FileDescriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | kFlags, 0600));
  if (!descriptor) descriptor.reset(::open(file.c_str(), O_RDONLY | kFlags));
  if (!descriptor && errno == ELOOP) {
    throw Error(
        Errc::InvalidInput,
        file.string() +
            " is a link, not a lock file; remove it when no dlflow process is working on the run");
  }
  if (!descriptor) throw_errno("cannot open " + file.string(), errno);
  require_lock_file(descriptor.get(), file);
  return descriptor;
}

/// Records the holder, only for the message of a process that waits, so failure does not matter.
void sign(const FileDescriptor& file) {
  const std::string text =
      std::string(kSignature) + std::to_string(::getpid()) + " on " + host_name() + "\n";
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
  throw Error(Errc::Unavailable, "another dlflow process is working on " + run_directory.string() +
                                     " (" + std::string(trim(holder.value_or("unknown"))) +
                                     "); watch it with `dlflow status --watch`, or end it first");
}

}  // namespace dlflow
