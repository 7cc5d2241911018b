#include "engine/plan/sources.h"

#include <algorithm>

namespace dlflow {

namespace fs = std::filesystem;

namespace {

/// How many folders above the workflow its files reach: "../data/x" reaches one.
size_t levels_above(const ContentHashes& files) {
  size_t most = 0;
  for (const auto& [name, hash] : files) {
    const fs::path path = fs::path(name).lexically_normal();
    most = std::max(most, size_t(std::count(path.begin(), path.end(), "..")));
  }
  return most;
}

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

}  // namespace dlflow
