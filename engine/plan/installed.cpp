#include "engine/plan/installed.h"

#include <algorithm>
#include <vector>

#include "base/sha256.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The names in the folders that pip installs to: "numpy-1.26.4.dist-info" says what and which.
std::string packages_of_venv(const fs::path& venv) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& python : fs::directory_iterator(venv / "lib", none)) {
    for (const auto& entry : fs::directory_iterator(python.path() / "site-packages", none)) {
      const std::string name = entry.path().filename().string();
      const bool says_version = name.ends_with(".dist-info") || name.ends_with(".egg-info");
      if (says_version) names.push_back(python.path().filename().string() + "/" + name);
    }
  }
  std::sort(names.begin(), names.end());
  return sha256_hex(join(names, "\n"));
}

}  // namespace

std::string installed_packages(const fs::path& lock, FileHashes& hashes) {
  std::error_code none;
  if (fs::is_regular_file(lock, none)) return hashes.sha256(lock);
  return fs::is_directory(lock, none) ? packages_of_venv(lock) : "";
}

std::string unknown_packages(const fs::path& lock) {
  return "the packages of its `environment:` are not known: " + lock.string() +
         " was not there when the run was planned";
}

}  // namespace dlflow
