#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

/// `file` is still what `path` names; somebody who empties the cache may have removed it meanwhile.
bool is_at(int file, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
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
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) throw_errno("cannot write " + path.string(), errno);
    const Flock flock = try_flock(file.get());
    if (flock == Flock::Busy) return std::nullopt;
    if (flock == Flock::None) return FileLock(std::move(file), false);
    if (!is_at(file.get(), path)) continue;
    if (purpose.empty()) return FileLock(std::move(file), true);
    const std::string owner = process_name() + ", which " + purpose;
    if (::ftruncate(file.get(), 0) != 0) throw_errno("cannot write " + path.string(), errno);
    write_all(file.get(), owner, path);
    return FileLock(std::move(file), true);
  }
}

FileLock FileLock::share(const fs::path& path) {
  while (true) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!file) throw_errno("cannot write " + path.string(), errno);
    if (::flock(file.get(), LOCK_SH) != 0 && errno == EINTR) continue;
    if (is_at(file.get(), path)) return FileLock(std::move(file), false);
  }
}

std::optional<FileLock> FileLock::try_share(const fs::path& path) {
  while (true) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!file) throw_errno("cannot write " + path.string(), errno);
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
