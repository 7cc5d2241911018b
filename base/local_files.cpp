#include "base/local_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// "; Debian's package dataset-fashion-mnist has it", for files where such a package installs them.
std::string package_with(const fs::path& file) {
  const fs::path name = file.lexically_relative("/usr/share/datasets");
  if (name.empty() || *name.begin() == "..") return "";
  return "; Debian's package dataset-" + name.begin()->string() + " has it";
}

void require_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return;
  if (fs::is_directory(path, error)) {
    throw Error(Errc::InvalidInput,
                path.string() + " is a folder; add a / at the end to take all files in it");
  }
  if (!fs::exists(fs::symlink_status(path, error))) {
    throw Error(Errc::NotFound, path.string() + ": there is no such file" + package_with(path));
  }
  throw Error(Errc::InvalidInput, path.string() + " is neither a file nor a folder");
}

/// The identity of a folder, whatever its name; nothing if there is none.
std::optional<std::pair<dev_t, ino_t>> identity(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

class Walk {
 public:
  Walk(const fs::path& left_out, OfTools of_tools)
      : left_out_(identity(left_out)), of_tools_(of_tools) {}

  void enter(const fs::path& folder) {
    entered_.push_back(identity(folder));
    bool is_empty = true;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (of_tools_ == OfTools::LeftOut && is_of_a_tool(entry.path().filename())) continue;
      is_empty = false;
      if (!entry.is_directory()) {
        found.push_back(entry);
      } else if (const auto next = identity(entry.path()); !next || next != left_out_) {
        require_end(entry.path(), next);
        enter(entry.path());
      }
    }
    if (is_empty) empty.push_back(folder);
    entered_.pop_back();
  }

  std::vector<fs::directory_entry> found;
  std::vector<fs::path> empty;  // folders

 private:
  using Identity = std::optional<std::pair<dev_t, ino_t>>;

  void require_end(const fs::path& link, const Identity& target) const {
    if (std::find(entered_.begin(), entered_.end(), target) == entered_.end()) return;
    throw fs::filesystem_error("no end", link,
                               std::make_error_code(std::errc::too_many_symbolic_link_levels));
  }

  Identity left_out_;
  OfTools of_tools_;
  std::vector<Identity> entered_;  // the current folder's ancestors
};

std::vector<LocalFile> files_below(const fs::path& folder) {
  std::vector<LocalFile> files;
  for (const auto& entry : entries_below(folder)) {
    require_file(entry.path());
    files.push_back({entry.path().lexically_relative(folder).string(), entry.path()});
  }
  return files;
}

std::vector<LocalFile> files_like(const fs::path& folder, const std::string& pattern) {
  std::vector<LocalFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!matches(name, pattern) || entry.is_directory()) continue;
    require_file(entry.path());
    files.push_back({name, entry.path()});
  }
  return files;
}

}  // namespace

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

bool is_of_a_tool(const std::string& name) {
  return name == "__pycache__" || name == ".ipynb_checkpoints" || name == ".git" ||
         name.starts_with(".nfs");
}

std::vector<fs::directory_entry> entries_below(const fs::path& folder, const fs::path& left_out,
                                               OfTools of_tools) {
  Walk walk(left_out, of_tools);
  walk.enter(folder);
  return std::move(walk.found);
}

FolderContent content_below(const fs::path& folder, OfTools of_tools) {
  Walk walk("", of_tools);
  walk.enter(folder);
  std::erase(walk.empty, folder);
  return {std::move(walk.found), std::move(walk.empty)};
}

std::vector<LocalFile> list_local_files(const UrlPath& place) {
  if (place.is_file()) {
    require_file(place.path);
    return {{"", place.path}};
  }
  if (!fs::is_directory(place.path)) {
    throw Error(Errc::NotFound, place.path + ": there is no such folder");
  }
  try {
    std::vector<LocalFile> files =
        place.is_folder ? files_below(place.path) : files_like(place.path, place.pattern);
    if (files.empty()) {
      throw Error(Errc::NotFound,
                  place.path + (place.is_folder ? ": there are no files in it"
                                                : ": no file in it is called " + place.pattern));
    }
    std::sort(files.begin(), files.end(),
              [](const LocalFile& a, const LocalFile& b) { return a.name < b.name; });
    return files;
  } catch (const fs::filesystem_error& error) {
    throw_errno("cannot list " + place.path, error.code().value());
  }
}

}  // namespace dlflow
