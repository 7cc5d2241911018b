#include "steps/transfer/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>

#include "base/error.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

/// Whoever may read what is in the folder may read the file: results are for others, too.
FileDescriptor open_part(const fs::path& path, int flags) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  return FileDescriptor(::open(path.c_str(), kFlags | flags, 0666));
}

/// The file at `path` is this user's, and nobody else is at work on it. Without the lock of a file
/// system that has none, nothing is.
bool is_ours(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(file.get(), &opened) == 0 &&
         S_ISREG(opened.st_mode) && opened.st_uid == ::geteuid() && opened.st_nlink == 1 &&
         ::lstat(path.c_str(), &named) == 0 &&  // another sender may have renamed it meanwhile
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

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

}  // namespace dlflow::steps
