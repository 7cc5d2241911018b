#include "engine/supervisor/open_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace dlflow {

namespace fs = std::filesystem;

FileDescriptor open_folder(const fs::path& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw_errno("cannot open " + path.string(), errno);
  return folder;
}

FileDescriptor open_within(const FileDescriptor& above, const std::string& name) {
  // O_NONBLOCK: a pipe must not make us wait for who writes to it.
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  FileDescriptor opened(::openat(above.get(), name.c_str(), kFlags));
  if (!opened && errno == ELOOP) throw Error(Errc::Corrupt, "'" + name + "' is a link");
  struct stat info {};
  if (!opened || ::fstat(opened.get(), &info) != 0) throw_errno("cannot open " + name, errno);
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    throw Error(Errc::Corrupt, "'" + name + "' is neither a file nor a folder");
  }
  return opened;
}

std::optional<FileDescriptor> make_folder(const FileDescriptor& above, const std::string& name) {
  if (::mkdirat(above.get(), name.c_str(), 0700) != 0) {
    if (errno == EEXIST) return std::nullopt;
    throw_errno("cannot create folder " + name, errno);
  }
  FileDescriptor made = open_within(above, name);
  struct stat info {};
  if (::fstat(made.get(), &info) != 0) throw_errno("cannot look at " + name, errno);
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    throw Error(Errc::Corrupt, "another user put something in the place of " + name);
  }
  return made;
}

fs::path path_of(const FileDescriptor& opened) {
  return "/proc/self/fd/" + std::to_string(opened.get());
}

}  // namespace dlflow
