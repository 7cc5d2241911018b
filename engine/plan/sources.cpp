#include "engine/plan/sources.h"

#include <algorithm>
#include <vector>

namespace dlflow {

namespace fs = std::filesystem;

namespace {

/// The number of levels that file names climb above the workflow: "../data/x" climbs one.
size_t levels_above(const ContentHashes& files) {
  size_t most = 0;
  for (const auto& [name, hash] : files) {
    const fs::path path = fs::path(name).lexically_normal();
    most = std::max(most, size_t(std::count(path.begin(), path.end(), "..")));
  }
  return most;
}

constexpr uint64_t kMaxCopiedFile = uint64_t{1} << 20;
constexpr uint64_t kMaxCopiedBytes = uint64_t{16} << 20;
constexpr size_t kMaxCopiedFiles = 1000;

/// The small files of one folder.
struct SmallFiles {
  std::vector<std::string> names;
  uint64_t bytes = 0;
};

}  // namespace

fs::path frozen_base(const fs::path& root, const ContentHashes& files) {
  fs::path base = root;
  for (size_t level = levels_above(files); level > 0; --level) base /= "_";
  return base;
}

fs::path frozen_path(const fs::path& base, const std::string& name) {
  const fs::path path = fs::path(name).lexically_normal();
  return path.is_absolute() ? base / "_root" / path.relative_path()
                            : (base / path).lexically_normal();
}

std::set<std::string> copied_inputs(const std::map<std::string, std::string>& inputs) {
  std::map<fs::path, SmallFiles> folders;
  for (const auto& [name, place] : inputs) {
    std::error_code gone;
    const uint64_t bytes = fs::file_size(place, gone);
    if (gone || bytes > kMaxCopiedFile) continue;
    SmallFiles& folder = folders[fs::path(name).parent_path()];
    folder.names.push_back(name);
    folder.bytes += bytes;
  }
  std::vector<const SmallFiles*> order;
  for (const auto& [path, files] : folders) order.push_back(&files);
  std::ranges::stable_sort(order, {}, [](const SmallFiles* files) { return files->names.size(); });
  std::set<std::string> copied;
  uint64_t bytes = 0;
  for (const SmallFiles* files : order) {
    const bool fits = copied.size() + files->names.size() <= kMaxCopiedFiles &&
                      bytes + files->bytes <= kMaxCopiedBytes;
    if (!fits) continue;
    copied.insert(files->names.begin(), files->names.end());
    bytes += files->bytes;
  }
  return copied;
}

}  // namespace dlflow
