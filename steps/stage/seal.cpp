#include "steps/stage/seal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/sha256.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

/// The mode of all objects. Objects are never executable: executable files are copies of them.
constexpr mode_t kMode = 0444;

/// Nanoseconds that encode content and size, so that a truncated file with its old time breaks the
/// seal. Seven hexadecimal digits are below 10^9.
long seal_of(const std::string& sha256, off_t bytes) {
  return std::stol(sha256.substr(0, 7), nullptr, 16) ^ long(bytes & 0xfffffff);
}

/// Whether only this user can have written to it, and can write to it later.
bool is_own(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

void seal(const std::filesystem::path& file, const std::string& sha256) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) throw_errno("cannot read " + file.string(), errno);
  const timespec times[2] = {{0, UTIME_NOW}, {info.st_mtim.tv_sec, seal_of(sha256, info.st_size)}};
  if (::chmod(file.c_str(), kMode) != 0 || ::utimensat(AT_FDCWD, file.c_str(), times, 0) != 0) {
    throw_errno("cannot change " + file.string(), errno);
  }
}

bool is_intact(const std::filesystem::path& file, const std::string& sha256) {
  struct stat info {};
  if (::lstat(file.c_str(), &info) != 0) throw_errno("cannot read " + file.string(), errno);
  if (!is_own(info)) return false;
  const bool has_mode = (info.st_mode & 07777) == kMode;
  if (has_mode && info.st_mtim.tv_nsec == seal_of(sha256, info.st_size)) return true;
  if (sha256_file(file, [](uint64_t) { throw_if_stopped(); }) != sha256) return false;
  try {
    seal(file, sha256);
  } catch (const Error&) {
    // Objects in a read-only cache are hashed each time.
    return (info.st_mode & 0111) == 0;
  }
  return true;
}

void mark_used(const std::filesystem::path& file) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, file.c_str(), times, 0);
}

}  // namespace dlflow::steps
