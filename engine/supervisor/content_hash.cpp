#include "engine/supervisor/content_hash.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/local_files.h"
#include "base/sha256.h"
#include "engine/plan/data_identity.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// SHA-256 of the names and contents of everything below a folder. A link that stays in it counts
/// as a link, another one as its target.
class FolderHash {
 public:
  FolderHash(const fs::path& root, const HashOfFile& hash_of)
      : root_(fs::canonical(root)), hash_of_(hash_of) {
    enter(root, "");
  }

  std::string hex() { return hash_.hex(); }

 private:
  void enter(const fs::path& folder, const std::string& prefix) {
    const fs::path real = fs::canonical(folder);
    if (std::ranges::find(entered_, real) != entered_.end()) {
      throw Error(Errc::InvalidInput, folder.string() + " is a link to a folder that contains it");
    }
    entered_.push_back(real);
    std::set<fs::path> places;
    for (const auto& entry : fs::directory_iterator(folder)) places.insert(entry.path());
    for (const fs::path& place : places) add(place, prefix + place.filename().string());
    entered_.pop_back();
  }

  void add(const fs::path& place, const std::string& name) {
    if (fs::is_symlink(place) && is_below(target_of(place), root_)) {
      update('l', name, target_of(place).lexically_relative(root_));
    } else if (fs::is_directory(place)) {
      update('d', name, "");
      enter(place, name + "/");
    } else {
      update(is_executable(place) ? 'x' : 'f', name, hash_of_(place));
    }
  }

  void update(char kind, const std::string& name, const std::string& content) {
    constexpr std::string_view kEnd("\0", 1);
    hash_.update(std::string_view(&kind, 1)).update(name).update(kEnd).update(content).update(kEnd);
  }

  fs::path root_;
  const HashOfFile& hash_of_;
  Sha256 hash_;
  std::vector<fs::path> entered_;  // the folders above the current one
};

}  // namespace

fs::path target_of(const fs::path& link) {
  return (fs::canonical(link.parent_path()) / fs::read_symlink(link)).lexically_normal();
}

std::string content_hash(const fs::path& path, const HashOfFile& hash_of) {
  return fs::is_directory(path) ? FolderHash(path, hash_of).hex() : hash_of(path);
}

std::string content_hash(const fs::path& path) {
  return content_hash(path, [](const fs::path& file) { return sha256_file(file); });
}

}  // namespace dlflow
