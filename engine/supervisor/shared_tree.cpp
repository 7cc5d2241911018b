#include "engine/supervisor/shared_tree.h"

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "engine/supervisor/open_folder.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Whether a link with this target, `depth` folders below its tree, stays in the tree whatever is
/// in there: it goes up first, if at all, and no further than to the top.
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
                                   " where there is room "
                                   "for " +
                                   format_size(room.bytes));
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

}  // namespace dlflow
