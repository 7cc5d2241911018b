#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Whether `file` is still the one at `path`: a cleanup of the cache may have removed it.
bool is_at(int file, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Separates the owner's name from the purpose of the lock.
constexpr std::string_view kWhich = ", which ";

/// Throws unless `file` is empty or a lock file, so that a wrong path never turns another file into
/// a lock.
void require_lock_file(int file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0) throw_errno("cannot read " + path.string(), errno);
  std::array<char, 4096> start{};
  const ssize_t got =
      S_ISREG(info.st_mode) ? ::pread(file, start.data(), start.size(), 0) : ssize_t{-1};
  const std::string_view text(start.data(), size_t(std::max<ssize_t>(got, 0)));
  if (got == 0 || text.find(kWhich) != text.npos) return;
  throw Error(Errc::InvalidInput, path.string() + " is not a lock file; it is left unchanged");
}

/// Opens the lock file, creating it if needed. Does not follow a link.
FileDescriptor open_lock(const fs::path& path, int access) {
  FileDescriptor file(
      ::open(path.c_str(), access | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file && errno == ELOOP) {
    throw Error(Errc::InvalidInput, path.string() + " is a link, not a lock file");
  }
  if (!file) throw_errno("cannot write " + path.string(), errno);
  require_lock_file(file.get(), path);
  return file;
}

}  // namespace

std::string process_name() { return host_name() + "." + std::to_string(::getpid()); }

Flock try_flock(int file) {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Flock::Busy;
    if (errno != EINTR) return Flock::None;
  }
  return Flock::Taken;
}

std::optional<FileLock> FileLock::try_acquire(const fs::path& path, const std::string& purpose) {
  while (true) {
    FileDescriptor file = open_lock(path, O_RDWR);
    const Flock flock = try_flock(file.get());
    if (flock == Flock::Busy) return std::nullopt;
    if (flock == Flock::None) return FileLock(std::move(file), false);
    if (!is_at(file.get(), path)) continue;
    if (purpose.empty()) return FileLock(std::move(file), true);
    const std::string owner = process_name() + std::string(kWhich) + purpose;
    if (::ftruncate(file.get(), 0) != 0) throw_errno("cannot write " + path.string(), errno);
    write_all(file.get(), owner, path);
    return FileLock(std::move(file), true);
  }
}

FileLock FileLock::share(const fs::path& path) {
  while (true) {
    FileDescriptor file = open_lock(path, O_RDONLY);
    if (::flock(file.get(), LOCK_SH) != 0 && errno == EINTR) continue;
    if (is_at(file.get(), path)) return FileLock(std::move(file), false);
  }
}

std::optional<FileLock> FileLock::try_share(const fs::path& path) {
  while (true) {
    FileDescriptor file = open_lock(path, O_RDONLY);
    if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      if (errno == EINTR) continue;
    }
    if (is_at(file.get(), path)) return FileLock(std::move(file), false);
  }
}

FileLock FileLock::acquire(const fs::path& path, const std::string& purpose,
                           const std::function<void()>& while_waiting) {
  for (bool told = false;; told = true) {
    if (auto lock = try_acquire(path, purpose)) return std::move(*lock);
    if (!told) {
      std::printf("waiting for %s\n", read_file_if_exists(path).value_or("another job").c_str());
      std::fflush(stdout);
    }
    if (while_waiting) while_waiting();
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace dlflow
