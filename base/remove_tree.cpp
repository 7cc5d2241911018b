#include "base/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/handle.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

using Folder = Handle<DIR, ::closedir>;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// The folder `name` in `above`, made writable; none if it does not exist.
Folder open_folder(int above, const std::string& name) {
  constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor file(::openat(above, name.c_str(), O_RDONLY | kFlags));
  if (!file && errno == EACCES) {
    // Through a descriptor, since another process may replace the folder with a link.
    const FileDescriptor closed(::openat(above, name.c_str(), O_PATH | kFlags));
    const std::string path = "/proc/self/fd/" + std::to_string(closed.get());
    if (closed && ::chmod(path.c_str(), 0700) == 0)
      file.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  if (!file && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return nullptr;
  if (!file) fail(name);
  ::fchmod(file.get(), 0700);
  Folder folder(::fdopendir(file.get()));
  if (!folder) fail(name);
  (void)file.release();
  return folder;
}

std::vector<std::string> names_in(DIR* folder) {
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(folder);
    if (entry == nullptr && errno != 0) fail("a folder");
    if (entry == nullptr) return names;
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      names.emplace_back(entry->d_name);
    }
  }
}

/// Empties a folder without recursion: moves nested folders up into it before it removes their
/// parents.
class Emptying {
 public:
  explicit Emptying(int root) : root_(root) {}

  void empty(DIR* folder) {
    take(folder);
    while (!folders_.empty()) {
      const std::string name = folders_.back();
      folders_.pop_back();
      if (const Folder next = open_folder(root_, name)) take(next.get());
      if (::unlinkat(root_, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) fail(name);
    }
  }

 private:
  /// Removes the files of `folder`, and moves its folders to the root.
  void take(DIR* folder) {
    const int from = ::dirfd(folder);
    for (const std::string& name : names_in(folder)) {
      if (::unlinkat(from, name.c_str(), 0) == 0 || errno == ENOENT) continue;
      struct stat info {};
      const int why = errno;
      if (::fstatat(from, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
          !S_ISDIR(info.st_mode)) {
        errno = why;
        fail(name);
      }
      if (from == root_) {
        folders_.push_back(name);
      } else {
        move_up(from, name);
      }
    }
  }

  void move_up(int from, const std::string& name) {
    open_folder(from, name);  // a folder must be writable to be moved
    while (true) {
      const std::string new_name = ".removed." + std::to_string(number_++);
      if (::renameat(from, name.c_str(), root_, new_name.c_str()) == 0) {
        folders_.push_back(new_name);
        return;
      }
      if (errno == ENOENT) return;
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) fail(name);
    }
  }

  int root_;
  size_t number_ = 0;
  std::vector<std::string> folders_;  // in root_, still to be emptied
};

void remove_it(const fs::path& root) {
  struct stat info {};
  if (::lstat(root.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    fail(root.string());
  }
  if (S_ISDIR(info.st_mode)) {
    const Folder folder = open_folder(AT_FDCWD, root.string());
    if (folder) Emptying(::dirfd(folder.get())).empty(folder.get());
  }
  if (::unlinkat(AT_FDCWD, root.c_str(), S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0) != 0) {
    if (errno != ENOENT) fail(root.string());
  }
}

}  // namespace

void remove_tree(const fs::path& root) {
  try {
    remove_it(root);
  } catch (const std::system_error& error) {
    throw_errno("cannot remove " + root.string(), error.code().value());
  }
}

void remove_tree(const fs::path& root, std::error_code& error) noexcept {
  try {
    error.clear();
    remove_it(root);
  } catch (const std::system_error& failure) {
    error = failure.code();
  } catch (const std::exception&) {
    error = std::make_error_code(std::errc::not_enough_memory);
  }
}

}  // namespace dlflow
