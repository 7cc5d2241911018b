#include "steps/transfer/local.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/sha256.h"
#include "steps/transfer/limits.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// A file beside `target` that only this sender writes to. It continues the part of an interrupted
/// sender. Since others may write to the folder, and another job may send the same file now, it
/// follows no links. If a file of another user, or of an active sender (which holds a flock), is in
/// the way, it uses a unique name; the destructor then removes the file unless it was renamed.
class PartFile {
 public:
  /// Throws Error.
  explicit PartFile(const std::filesystem::path& target);
  ~PartFile();

  const std::filesystem::path& path() const { return path_; }
  const FileDescriptor& file() const { return file_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  bool has_own_name_ = false;
};

/// The folder's readers may read the file, too: results are for others.
FileDescriptor open_part(const fs::path& path, int flags) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  return FileDescriptor(::open(path.c_str(), kFlags | flags, 0666));
}

/// Whether the file at `path` belongs to this user and no other sender uses it. False if the file
/// system has no locks.
bool is_ours(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(file.get(), &opened) == 0 &&
         S_ISREG(opened.st_mode) && opened.st_uid == ::geteuid() && opened.st_nlink == 1 &&
         ::lstat(path.c_str(), &named) == 0 &&  // another sender may have renamed it
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

PartFile::PartFile(const fs::path& target) {
  const std::string name = "." + target.filename().string() + ".";
  path_ = target.parent_path() / (name + "dlflow-part");
  file_ = open_part(path_, 0);
  if (file_ && is_ours(file_, path_)) return;
  path_ = target.parent_path() / (name + std::to_string(std::random_device{}()) + ".dlflow-part");
  file_ = open_part(path_, O_EXCL);
  if (!file_) throw_errno("cannot open " + path_.string(), errno);
  has_own_name_ = true;
}

PartFile::~PartFile() {
  if (has_own_name_) ::unlink(path_.c_str());
}

bool has_content(const fs::path& path, uint64_t bytes, const std::string& sha256) {
  std::error_code error;
  if (fs::file_size(path, error) != bytes || error) return false;
  return sha256_file(path, [](uint64_t) { throw_if_stopped(); }) == sha256;
}

void make_executable_as(const fs::path& from, const FileDescriptor& to) {
  struct stat info {};
  struct stat own {};
  if (::stat(from.c_str(), &info) != 0 || (info.st_mode & S_IXUSR) == 0) return;
  if (::fstat(to.get(), &own) != 0) return;
  ::fchmod(to.get(), (own.st_mode & 0777) | ((own.st_mode & 0444) >> 2));
}

/// Like copy_file(), but into the open file `copy` at `to`.
std::string copy_into(const FileDescriptor& copy, const fs::path& to, const fs::path& from,
                      uint64_t bytes_per_second, const std::function<void(uint64_t)>& progress) {
  const FileDescriptor source = open_or_throw(from, O_RDONLY);
  Sha256 hash;
  std::vector<char> buffer(size_t{1} << 20);
  std::vector<char> there(buffer.size());
  const auto begin = std::chrono::steady_clock::now();
  uint64_t bytes = 0;
  uint64_t copied_bytes = 0;
  bool agrees = true;
  for (size_t got; (got = read_some(source.get(), buffer, from)) > 0;) {
    hash.update({buffer.data(), got});
    agrees = agrees && ::pread(copy.get(), there.data(), got, off_t(bytes)) == ssize_t(got) &&
             std::memcmp(there.data(), buffer.data(), got) == 0;
    if (!agrees) {
      if (::lseek(copy.get(), off_t(bytes), SEEK_SET) < 0) {
        throw_errno("cannot write " + to.string(), errno);
      }
      write_all(copy.get(), {buffer.data(), got}, to);
      copied_bytes += got;
    }
    bytes += got;
    progress(bytes);
    throw_if_stopped();
    keep_pace(begin, copied_bytes, bytes_per_second);
  }
  if (::ftruncate(copy.get(), off_t(bytes)) != 0 || ::fsync(copy.get()) != 0) {
    throw_errno("cannot write " + to.string(), errno);
  }
  return hash.hex();
}

}  // namespace

std::string copy_file(const fs::path& from, const fs::path& to, uint64_t bytes_per_second,
                      const std::function<void(uint64_t)>& progress) {
  const FileDescriptor copy = open_or_throw(to, O_RDWR | O_CREAT, 0666);
  return copy_into(copy, to, from, bytes_per_second, progress);
}

Uploaded local_upload(const UploadRequest& request) {
  const fs::path target = request.address.place.path;
  if (has_content(target, request.bytes, request.sha256)) return Uploaded::AlreadyThere;
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) throw_errno("cannot make " + target.parent_path().string(), error.value());
  const PartFile part(target);
  try {
    copy_into(part.file(), part.path(), request.file, request.bytes_per_second, request.progress);
    if (!has_content(part.path(), request.bytes, request.sha256)) {
      throw Error(Errc::Corrupt, part.path().string() + " does not match what was written to it");
    }
    make_executable_as(request.file, part.file());
    if (::rename(part.path().c_str(), target.c_str()) != 0) {
      throw_errno("cannot write " + target.string(), errno);
    }
  } catch (const Error& failure) {
    if (!failure.retryable()) fs::remove(part.path(), error);  // frees space on a full disk
    throw;
  }
  sync_directory(target.parent_path());
  return Uploaded::Sent;
}

}  // namespace dlflow::steps
