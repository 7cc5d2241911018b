#include "engine/container/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_identity.h"
#include "base/handle.h"
#include "base/local_files.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // the kernel's limit

/// dlflow marks a folder that it made as a mount point with the sticky bit, which has no other
/// effect if only the owner may write.
constexpr mode_t kMountPointMode = 01755;

bool is_mount_point(const fs::file_status& status) {
  constexpr auto kShared = fs::perms::group_write | fs::perms::others_write;
  const fs::perms mode = status.permissions();
  return (mode & fs::perms::sticky_bit) != fs::perms::none && (mode & kShared) == fs::perms::none;
}

struct Entry {
  std::string name;
  fs::file_status status;
};

using IsMeant = bool (*)(const fs::file_status& status);

bool is_file_or_link(const fs::file_status& status) {
  return fs::is_regular_file(status) || fs::is_symlink(status);
}

bool is_anything(const fs::file_status&) { return true; }

/// The entries below `root`, sorted by name.
std::vector<Entry> entries_of(const fs::path& root, IsMeant is_meant = is_file_or_link) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    const fs::file_status status = it->symlink_status();
    if (!is_meant(status)) continue;
    entries.push_back({it->path().lexically_relative(root).string(), status});
  }
  if (error)
    throw Error(Errc::InvalidInput, "cannot read " + root.string() + ": " + error.message());
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

int64_t ctime_ns(const struct stat& info) {
  return int64_t(info.st_ctim.tv_sec) * 1'000'000'000 + info.st_ctim.tv_nsec;
}

template <typename Change>
void for_each_folder(const fs::path& root, const Change& change) {
  change(root);
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (fs::is_directory(it->symlink_status())) for_each_folder(it->path(), change);
  }
}

void change_mode(const fs::path& folder, mode_t keep, mode_t add) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 ||
      ::chmod(folder.c_str(), (info.st_mode & keep) | add) != 0) {
    throw_errno("cannot change the mode of " + folder.string(), errno);
  }
}

/// Makes the folder writable while this lives.
class Writable {
 public:
  explicit Writable(const fs::path& folder) : folder_(folder) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0 || (info.st_mode & S_IWUSR) != 0) return;
    mode_ = info.st_mode & 07777;
    changed_ = ::chmod(folder.c_str(), mode_ | S_IWUSR) == 0;
  }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  ~Writable() {
    if (changed_) ::chmod(folder_.c_str(), mode_);
  }

 private:
  fs::path folder_;
  mode_t mode_ = 0;
  bool changed_ = false;
};

void make_in(const fs::path& folder, const fs::path& path, MountPoint what) {
  const Writable writable(folder);
  if (what == MountPoint::Folder) {
    if (::mkdir(path.c_str(), kMountPointMode) == 0 || errno == EEXIST) return;
  } else {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (file) return;
  }
  throw_errno("cannot make " + path.string(), errno);
}

}  // namespace

namespace {

constexpr std::array kMountedFolders = {"/dev", "/proc", "/sys", "/tmp", "/run"};
constexpr std::array kMountedFiles = {"/etc/hosts",  "/etc/resolv.conf", "/etc/hostname",
                                      "/etc/passwd", "/etc/group",       "/etc/nsswitch.conf"};
constexpr const char* kMtab = "/etc/mtab";
constexpr const char* kMounts = "/proc/mounts";

/// Whether programs cannot see the entry: add_mount_points() may have made it, or something is
/// mounted over it.
bool is_covered(const fs::path& root, const Entry& entry) {
  const std::string name = "/" + entry.name;
  if (fs::is_symlink(entry.status)) {
    return name == kMtab && fs::read_symlink(root / entry.name) == kMounts;
  }
  if (!fs::is_regular_file(entry.status)) {  // a folder, or a node of /dev from debootstrap
    return std::ranges::any_of(kMountedFolders,
                               [&](const char* folder) { return is_below(name, folder); });
  }
  return fs::file_size(root / entry.name) == 0 &&
         std::ranges::find(kMountedFiles, name) != kMountedFiles.end();
}

/// All entries except folders that are not empty, or that dlflow made as mount points.
std::vector<Entry> without_needless_folders(std::vector<Entry> entries) {
  std::set<fs::path> holding;
  const auto hold = [&](const fs::path& name) {
    for (fs::path above = name.parent_path(); !above.empty(); above = above.parent_path()) {
      if (!holding.insert(above).second) return;
    }
  };
  for (const Entry& entry : entries) {
    if (!fs::is_directory(entry.status) || !is_mount_point(entry.status)) hold(entry.name);
  }
  std::erase_if(entries, [&](const Entry& entry) {
    return fs::is_directory(entry.status) &&
           (is_mount_point(entry.status) || holding.contains(entry.name));
  });
  return entries;
}

TreeHash hash_entries(const fs::path& root, const std::vector<Entry>& entries,
                      const std::function<std::string(const fs::path&)>& sha256) {
  TreeHash result;
  Sha256 hash;
  for (const Entry& entry : entries) {
    const fs::path path = root / entry.name;
    ++result.files;
    if (fs::is_symlink(entry.status)) {
      const std::string target = fs::read_symlink(path);
      hash.update("-> " + name_in_line(target) + "  " + name_in_line(entry.name) + "\n");
      continue;
    }
    if (fs::is_directory(entry.status)) {
      hash.update("empty folder  " + name_in_line(entry.name) + "\n");
      continue;
    }
    if (!fs::is_regular_file(entry.status)) {
      hash.update("pipe, socket or device  " + name_in_line(entry.name) + "\n");
      continue;
    }
    const bool runs = (entry.status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    result.bytes += fs::file_size(path);
    hash.update(sha256(path) + (runs ? " x" : "  ") + name_in_line(entry.name) + "\n");
  }
  result.sha256 = hash.hex();
  return result;
}

}  // namespace

TreeHash hash_tree(const fs::path& root,
                   const std::function<std::string(const fs::path&)>& sha256) {
  return hash_entries(root, entries_of(root), sha256);
}

Digest folder_digest(const fs::path& root,
                     const std::function<std::string(const fs::path&)>& sha256) {
  std::vector<Entry> entries = entries_of(root, is_anything);
  std::erase_if(entries, [&](const Entry& entry) { return is_covered(root, entry); });
  return Digest::of_hex(
      hash_entries(root, without_needless_folders(std::move(entries)), sha256).sha256);
}

std::string tree_state(const fs::path& root) {
  uintmax_t count = 0;
  uintmax_t bytes = 0;
  int64_t newest_ns = 0;
  for (const Entry& entry : entries_of(root)) {
    const FileIdentity identity = identity_of_link(root / entry.name);
    if (identity.size == 0) continue;  // only a file: a link has the size of its target's name
    ++count;
    bytes += uintmax_t(identity.size);
    newest_ns = std::max(newest_ns, identity.mtime_ns);
  }
  return std::to_string(count) + " " + std::to_string(bytes) + " " + std::to_string(newest_ns);
}

bool is_unchanged_since(const fs::path& root, const fs::path& file) {
  struct stat since {};
  struct stat info {};
  if (::stat(file.c_str(), &since) != 0) return false;
  const auto is_older = [&](const fs::path& path) {
    return ::lstat(path.c_str(), &info) == 0 && info.st_dev == since.st_dev &&
           ctime_ns(info) < ctime_ns(since);
  };
  if (!is_older(root)) return false;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    if (!is_older(it->path())) return false;
  }
  return !error;
}

std::string tree_identity(const fs::path& root) {
  std::map<std::string, FileIdentity> entries;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    entries.emplace(entry.path().lexically_relative(root).string(), identity_of_link(entry.path()));
  }
  Sha256 hash;
  hash.update(to_string(identity_of(root)) + "\n");
  for (const auto& [name, identity] : entries) {
    hash.update(to_string(identity) + " " + name_in_line(name) + "\n");
  }
  return hash.hex();
}

void make_read_only(const fs::path& root) {
  constexpr auto kWrite = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  for (const Entry& entry : entries_of(root)) {
    const bool is_file = fs::is_regular_file(entry.status);
    if (!is_file || (entry.status.permissions() & kWrite) == fs::perms::none) continue;
    fs::permissions(root / entry.name, kWrite, fs::perm_options::remove);
  }
  std::vector<fs::path> folders;
  for_each_folder(root, [&](const fs::path& folder) { folders.push_back(folder); });
  for (const fs::path& folder : folders) change_mode(folder, 0555, 0500);
}

fs::path resolve_in(const fs::path& root, const fs::path& name) {
  std::list<std::string> left;
  for (const fs::path& part : name.relative_path()) left.push_back(part.string());
  fs::path at;  // relative to root
  int links = 0;
  while (!left.empty()) {
    const std::string part = left.front();
    left.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      at = at.parent_path();
      continue;
    }
    std::error_code error;
    const bool link = !left.empty() && fs::is_symlink(fs::symlink_status(root / at / part, error));
    if (!link) {
      at /= part;
      continue;
    }
    if (++links > kMostLinks) {
      throw Error(Errc::InvalidInput, "too many links in " + (root / name).string());
    }
    const fs::path target = fs::read_symlink(root / at / part);
    if (target.is_absolute()) at.clear();
    std::list<std::string> parts;
    for (const fs::path& next : target.relative_path()) parts.push_back(next.string());
    left.splice(left.begin(), parts);
  }
  return root / at;
}

void make_mount_point(const fs::path& root, const fs::path& target, MountPoint what) {
  const fs::path name = target.relative_path().lexically_normal();
  fs::path so_far;
  try {
    for (auto part = name.begin(); part != name.end(); ++part) {
      if (part->empty()) continue;
      so_far /= *part;
      const fs::path path = resolve_in(root, so_far / ".");  // follows a link at the end, too
      std::error_code error;
      if (fs::exists(path, error)) continue;
      const bool is_last = std::next(part) == name.end();
      make_in(path.parent_path(), path, is_last ? what : MountPoint::Folder);
    }
  } catch (const Error& error) {
    throw Error(Errc::InvalidInput,
                "the image has no " + target.string() +
                    " to bind that to, and it cannot be created: " + error.what());
  }
}

void add_mount_points(const fs::path& rootfs) {
  for (const char* folder : kMountedFolders) make_mount_point(rootfs, folder, MountPoint::Folder);
  for (const char* file : kMountedFiles) make_mount_point(rootfs, file, MountPoint::File);
  std::error_code there;
  fs::create_symlink(kMounts, resolve_in(rootfs, kMtab), there);
}

}  // namespace dlflow
