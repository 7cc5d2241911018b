#include "engine/supervisor/shared_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Whether a link with this target, `depth` folders below its tree, stays in the tree whatever its
/// content: it goes up first, if at all, and no further than to the top.
bool is_inner(const fs::path& target, size_t depth) {
  if (target.is_absolute()) return false;
  bool goes_down = false;
  size_t ups = 0;
  for (const fs::path& part : target) {
    if (part != "..") {
      goes_down = true;
    } else if (goes_down || ++ups > depth) {
      return false;
    }
  }
  return goes_down;
}

void copy_tree(const fs::path& from, const fs::path& to, size_t depth) {
  make_directories(to);
  for (const auto& item : fs::directory_iterator(from)) {
    const fs::path target = to / item.path().filename();
    if (item.is_symlink() && is_inner(fs::read_symlink(item.path()), depth)) {
      fs::copy_symlink(item.path(), target);
    } else if (item.is_directory()) {
      copy_tree(item.path(), target, depth + 1);
    } else {
      copy_content(item.path(), target);
    }
  }
}

void take_bytes(TreeRoom& room, uint64_t bytes) {
  if (bytes > room.bytes) {
    throw Error(Errc::Corrupt, "a shared result has " + format_size(bytes) +
                                   ", but there is room for only " + format_size(room.bytes));
  }
  room.bytes -= bytes;
}

void take_tree(const FileDescriptor& from, const fs::path& to, TreeRoom& room, size_t depth) {
  make_directories(to);
  for (const auto& item : fs::directory_iterator(path_of(from))) {
    const fs::path name = item.path().filename();
    if (room.entries-- == 0) throw Error(Errc::Corrupt, "a shared result has too many files");
    if (item.is_symlink()) {
      const fs::path target = fs::read_symlink(path_of(from) / name);
      if (!is_inner(target, depth)) {
        throw Error(Errc::Corrupt, "a shared result has a link to " + target.string());
      }
      fs::create_symlink(target, to / name);
      continue;
    }
    const FileDescriptor opened = open_within(from, name);
    if (fs::is_directory(path_of(opened))) {
      take_tree(opened, to / name, room, depth + 1);
    } else {
      take_bytes(room, fs::file_size(path_of(opened)));
      copy_content(path_of(opened), to / name);
    }
  }
}

}  // namespace

void copy_tree(const fs::path& from, const fs::path& to) { copy_tree(from, to, 0); }

void take_tree(const FileDescriptor& from, const fs::path& to, TreeRoom& room) {
  take_tree(from, to, room, 0);
}

FileDescriptor open_folder(const fs::path& path) {
  return open_or_throw(path, O_RDONLY | O_DIRECTORY);
}

FileDescriptor open_within(const FileDescriptor& above, const std::string& name) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
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
    throw Error(Errc::Corrupt, "another user replaced " + name);
  }
  return made;
}

fs::path path_of(const FileDescriptor& opened) {
  return "/proc/self/fd/" + std::to_string(opened.get());
}

}  // namespace dlflow
