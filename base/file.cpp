#include "base/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/fault.h"
#include "base/output_file.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::string read_all(int descriptor, const struct stat& info, const fs::path& path,
                     uint64_t max_bytes) {
  if (S_ISDIR(info.st_mode)) {
    throw Error(Errc::InvalidInput, "cannot read " + path.string() + ": it is a folder");
  }
  const auto too_large = [&] {
    return Error(Errc::InvalidInput, path.string() + " is too large: at most " +
                                         std::to_string(max_bytes) + " bytes are allowed");
  };
  if (uint64_t(info.st_size) > max_bytes) throw too_large();
  // Files of /proc have size 0.
  const auto size = size_t(info.st_size);
  std::string content(size == 0 ? size_t{4096} : size, '\0');
  size_t used = 0;
  while (size == 0 || used < size) {
    const size_t got = read_some(descriptor, std::span(content).subspan(used), path);
    if (got == 0) break;
    used += got;
    if (used > max_bytes) throw too_large();
    if (size == 0 && used == content.size()) content.resize(used * 2);
  }
  content.resize(used);
  return content;
}

/// O_NONBLOCK: a reader of a file that others may write must not hang if it is a pipe without
/// writer.
constexpr int kReadAtOnce = O_RDONLY | O_NONBLOCK | O_CLOEXEC;

std::string read_plain(int descriptor, const fs::path& path, uint64_t max_bytes) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) throw_errno("cannot read " + path.string(), errno);
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    throw Error(Errc::InvalidInput,
                "cannot read " + path.string() + ": it is a pipe or a device, not a file");
  }
  return read_all(descriptor, info, path, max_bytes);
}

/// `info` describes `directory`. Throws if any other user may enter or change it.
void check_private(const fs::path& directory, const struct stat& info) {
  std::string reason;
  if (!S_ISDIR(info.st_mode)) {
    reason = "is no folder";
  } else if (info.st_uid != ::geteuid()) {
    reason = "belongs to another user (" + std::to_string(info.st_uid) + ")";
  } else if ((info.st_mode & 077) != 0) {
    throw Error(Errc::InvalidInput, directory.string() +
                                        " is open to other users; type `chmod 700 " +
                                        shell_quote(directory.string()) + "`");
  } else {
    return;
  }
  throw Error(Errc::InvalidInput, directory.string() + " should be a folder of your own, but " +
                                      reason + "; have it removed, or choose another cache");
}

}  // namespace

FileDescriptor open_or_throw(const fs::path& path, int flags, mode_t mode) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (file) return file;
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  const fs::path folder = path.parent_path();
  std::error_code none;
  if (errno == ENOENT && !reads && !folder.empty() && !fs::exists(folder, none)) {
    throw Error(Errc::NotFound, "cannot write into " + folder.string() +
                                    ": there is no such folder; `mkdir -p " +
                                    shell_quote(folder.string()) + "` makes it");
  }
  throw_errno((reads ? "cannot open " : "cannot write ") + path.string(), errno);
  return file;
}

std::string read_file(const fs::path& path, uint64_t max_bytes) {
  const FileDescriptor file = open_or_throw(path, kReadAtOnce);
  return read_plain(file.get(), path, max_bytes);
}

std::optional<std::string> read_file_if_exists(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), kReadAtOnce));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!file) throw_errno("cannot open " + path.string(), errno);
  return read_plain(file.get(), path, UINT64_MAX);
}

std::optional<std::string> read_private_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!file) throw_errno("cannot open " + path.string(), errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw_errno("cannot read " + path.string(), errno);
  if (info.st_uid != ::geteuid()) {
    throw Error(Errc::InvalidInput,
                path.string() + " belongs to another user; put a file of your own in its place");
  }
  if ((info.st_mode & 077) != 0) {
    throw Error(Errc::InvalidInput, path.string() + " is open to other users; type `chmod 600 " +
                                        shell_quote(path.string()) + "`");
  }
  return read_all(file.get(), info, path, UINT64_MAX);
}

uint64_t size_or_zero(const fs::path& file) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

size_t read_some(int descriptor, std::span<char> buffer, const fs::path& path) {
  while (true) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got >= 0) return size_t(got);
    if (errno != EINTR) throw_errno("cannot read " + path.string(), errno);
  }
}

void write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  const size_t fit = bytes_that_fit(path, bytes.size());
  std::string_view rest = bytes.substr(0, fit);
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("cannot write " + path.string(), errno);
    rest.remove_prefix(size_t(written));
  }
  if (fit < bytes.size()) {
    crash_point("torn write");
    throw_errno("cannot write " + path.string(), ENOSPC);
  }
}

void close_or_throw(FileDescriptor file, const fs::path& path) {
  if (::close(file.release()) != 0 && errno != EINTR) {
    throw_errno("cannot write " + path.string(), errno);
  }
}

void copy_content(const fs::path& from, const fs::path& to) {
  const FileDescriptor source = open_or_throw(from, O_RDONLY);
  struct stat info {};
  if (::fstat(source.get(), &info) != 0) throw_errno("cannot read " + from.string(), errno);
  FileDescriptor copy = open_or_throw(to, O_WRONLY | O_CREAT | O_TRUNC, info.st_mode & 0777);
  if (::ioctl(copy.get(), FICLONE, source.get()) == 0) return close_or_throw(std::move(copy), to);
  constexpr size_t kBufferBytes = size_t{1} << 20;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  while (true) {
    const size_t got = read_some(source.get(), {buffer.get(), kBufferBytes}, from);
    if (got == 0) return close_or_throw(std::move(copy), to);
    write_all(copy.get(), {buffer.get(), got}, to);
  }
}

void replace_file(const fs::path& path, std::string_view content, Durability durability,
                  mode_t mode) {
  static std::atomic<unsigned> counter{0};
  fs::path temporary = path;
  temporary += ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  try {
    FileDescriptor file = open_or_throw(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
    write_all(file.get(), content, path);
    if (durability == Durability::Synced && ::fsync(file.get()) != 0) {
      throw_errno("cannot write " + path.string(), errno);
    }
    close_or_throw(std::move(file), path);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno("cannot write " + path.string(), errno);
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (durability == Durability::Synced) sync_directory(path.parent_path());
}

void write_file_atomic(const fs::path& path, std::string_view content, Durability durability) {
  replace_file(path, content, durability, 0600);
}

void write_file(const fs::path& path, std::string_view content) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_errno("cannot write " + path.string(), errno);
  }
  FileDescriptor file = open_or_throw(path, O_WRONLY | O_CREAT | O_EXCL);
  write_all(file.get(), content, path);
  close_or_throw(std::move(file), path);
}

void sync_directory(const fs::path& directory) {
  const fs::path path = directory.empty() ? fs::path(".") : directory;
  const FileDescriptor file = open_or_throw(path, O_RDONLY | O_DIRECTORY);
  // Some network file systems cannot sync a directory: they return EINVAL and need no sync.
  if (::fsync(file.get()) != 0 && errno != EINVAL) {
    throw_errno("cannot write " + path.string(), errno);
  }
}

bool sync_tree(const fs::path& folder) {
  constexpr size_t kMany = 16;
  constexpr auto kReadable = fs::directory_options::skip_permission_denied;
  std::error_code none;
  if (fs::directory_iterator(folder, none) == fs::directory_iterator()) return false;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder, kReadable)) {
    const auto type = entry.symlink_status().type();
    if (type != fs::file_type::regular && type != fs::file_type::directory) continue;
    paths.push_back(entry.path());
    if (paths.size() == kMany) break;
  }
  const bool all = paths.size() == kMany;
  if (all) paths.clear();
  paths.push_back(folder);
  for (const fs::path& path : paths) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file && (errno == EACCES || errno == ENOENT)) continue;  // ENOENT: just removed
    if (!file) throw_errno("cannot open " + path.string(), errno);
    if ((all ? ::syncfs(file.get()) : ::fsync(file.get())) != 0 && errno != EINVAL) {
      throw_errno("cannot write " + path.string(), errno);
    }
  }
  return true;
}

fs::path private_part(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return folder;
  const bool shared = info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (!shared) return folder;
  fs::path own = folder / ("user-" + std::to_string(::geteuid()));
  if (::lstat(own.c_str(), &info) == 0) check_private(own, info);
  return own;
}

void require_private(const fs::path& directory) {
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0) {
    throw_errno("cannot read " + directory.string(), errno);
  }
  check_private(directory, info);
}

void make_private_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno("cannot create folder " + directory.string(), errno);
  }
  require_private(directory);
}

void make_directories(const fs::path& directory) {
  if (directory.empty() || ::mkdir(directory.c_str(), 0700) == 0) return;
  if (errno == ENOENT && directory.has_parent_path() && directory.parent_path() != directory) {
    make_directories(directory.parent_path());
    if (::mkdir(directory.c_str(), 0700) == 0) return;
  }
  const int error_number = errno;
  struct stat info {};
  if (error_number == EEXIST && ::stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return;
  }
  throw_errno("cannot create folder " + directory.string(), error_number);
}

AppendFile::AppendFile(const fs::path& path)
    : path_(path), file_(open_or_throw(path, O_RDWR | O_CREAT | O_APPEND)) {
  const off_t size = ::lseek(file_.get(), 0, SEEK_END);
  char last = '\n';
  torn_ = size > 0 && ::pread(file_.get(), &last, 1, size - 1) == 1 && last != '\n';
}

void AppendFile::append(std::string_view line) {
  std::string bytes = torn_ ? " (torn)\n" : "";
  bytes += line;
  bytes += '\n';
  torn_ = true;
  write_all(file_.get(), bytes, path_);
  torn_ = false;
}

void AppendFile::sync() {
  if (::fdatasync(file_.get()) != 0) throw_errno("cannot write " + path_.string(), errno);
}

}  // namespace dlflow
