#include "steps/environment/place_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"

namespace dlflow::steps {

void place_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return;
  // Linking may fail for many reasons: another file system, one without links, too many links, a
  // file of another user. Copy instead; a real error occurs again there.
  place_copy(from, to);
}

void place_copy(const std::filesystem::path& from, const std::filesystem::path& to) {
  const FileDescriptor source = open_or_throw(from, O_RDONLY);
  struct stat info {};
  if (::fstat(source.get(), &info) != 0) throw_errno("cannot read " + from.string(), errno);
  FileDescriptor copy = open_or_throw(to, O_WRONLY | O_CREAT | O_EXCL, info.st_mode & 0777);
  if (::ioctl(copy.get(), FICLONE, source.get()) == 0) return;
  try {
    ssize_t copied = 1;
    while (copied != 0) {
      copied = ::sendfile(copy.get(), source.get(), nullptr, size_t{1} << 24);
      if (copied < 0 && errno != EINTR) throw_errno("cannot write " + to.string(), errno);
    }
    close_or_throw(std::move(copy), to);
  } catch (const Error&) {
    ::unlink(to.c_str());
    throw;
  }
}

}  // namespace dlflow::steps
