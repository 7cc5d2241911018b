#include "engine/container/layer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "base/archive/tar.h"
#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/remove_tree.h"
#include "engine/container/tree.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";

class Layer : public ArchiveEntries {
 public:
  explicit Layer(const fs::path& root) : root_(root) {}
  ~Layer() override = default;

  void begin_file(const std::string& name, mode_t mode) override {
    end_file();
    const fs::path path = fs::path(name).lexically_normal();
    if (const std::string last = path.filename().string(); last.starts_with(kWhiteout)) {
      return white_out(path, last);
    }
    path_ = new_place(name);
    file_ = open_or_throw(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    mode_ = (mode & 0555) | 0400;
  }

  void write(std::string_view bytes) override {
    if (file_) write_all(file_.get(), bytes, path_);
  }

  void add_symbolic_link(const std::string& name, const std::string& target) override {
    const fs::path path = new_place(name);
    if (::symlink(target.c_str(), path.c_str()) != 0) {
      throw_errno("cannot write " + path.string(), errno);
    }
  }

  void add_hard_link(const std::string& name, const std::string& target) override {
    const fs::path from = resolve_in(root_, target);
    const fs::path path = new_place(name);
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), 0) != 0) {
      throw_errno("cannot write " + path.string(), errno);
    }
  }

  void add_folder(const std::string& name, mode_t mode) override {
    const fs::path path = place(name);
    struct stat info {};
    const bool there = ::lstat(path.c_str(), &info) == 0;
    if (there && !S_ISDIR(info.st_mode)) ::unlink(path.c_str());
    if ((!there || !S_ISDIR(info.st_mode)) && ::mkdir(path.c_str(), 0700) != 0) {
      throw_errno("cannot write " + path.string(), errno);
    }
    if (::chmod(path.c_str(), (mode & 0777) | 0700) != 0) {
      throw_errno("cannot write " + path.string(), errno);
    }
    keep(path);
  }

  void add_special_file(const std::string&) override {}  // runtimes provide devices

  void end_file() {
    if (!file_) return;
    if (::fchmod(file_.get(), mode_) != 0) throw_errno("cannot write " + path_.string(), errno);
    file_.reset();
  }

 private:
  /// The path of `name`, after creating its parent folders.
  fs::path place(const std::string& name) {
    fs::path path = resolve_in(root_, name);
    const fs::path above = path.parent_path();
    std::error_code error;
    if (above != root_ && !fs::is_directory(above, error)) {
      fs::create_directories(above, error);
      if (error) throw_errno("cannot write " + above.string(), error.value());
    }
    return path;
  }

  /// Records that `path` and the folders above it belong to this layer.
  void keep(fs::path path) {
    while (path != root_ && made_.insert(path).second) path = path.parent_path();
  }

  /// Like place(); also removes an existing entry.
  fs::path new_place(const std::string& name) {
    fs::path path = place(name);
    if (path == root_) throw Error(Errc::Corrupt, "a layer replaces the root of the image");
    remove_tree(path);
    keep(path);
    return path;
  }

  void white_out(const fs::path& path, const std::string& last) {
    const fs::path folder = place(path.string()).parent_path();
    if (last == kOpaque) return hide(folder);
    const std::string name = last.substr(kWhiteout.size());
    if (name.empty() || name == "." || name == "..") {
      throw Error(Errc::Corrupt,
                  "a layer removes '" + path.string() + "', which is not a valid name");
    }
    remove_tree(folder / name);
  }

  /// Removes the content of lower layers in `folder`, but not that of this layer.
  void hide(const fs::path& folder) {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
    for (const fs::path& entry : entries) {
      if (!made_.contains(entry)) {
        remove_tree(entry);
      } else if (fs::is_directory(fs::symlink_status(entry))) {
        hide(entry);
      }
    }
  }

  fs::path root_;
  std::set<fs::path> made_;  // by this layer
  FileDescriptor file_;      // the file being written, if any
  fs::path path_;
  mode_t mode_ = 0;
};

}  // namespace

uint64_t apply_layer(ByteSource& source, const fs::path& root, uint64_t max_entries) {
  Layer layer(root);
  const uint64_t entries = read_tar(source, layer, max_entries);
  layer.end_file();
  return entries;
}

}  // namespace dlflow
