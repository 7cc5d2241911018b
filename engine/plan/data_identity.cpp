#include "engine/plan/data_identity.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_identity.h"
#include "base/sha256.h"
#include "base/url.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::vector<LocalFile> files_at(const fs::path& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  if (!fs::is_directory(path)) return {{"", path}};
  std::vector<LocalFile> files;
  for (const auto& entry : entries_below(path)) {
    if (!entry.is_regular_file()) continue;
    files.push_back({entry.path().lexically_relative(path).string(), entry.path()});
  }
  std::sort(files.begin(), files.end(),
            [](const LocalFile& a, const LocalFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace

std::vector<LocalFile> data_at(const std::string& place) {
  const auto url = parse_file_url(place);
  if (!url) return files_at(place);
  try {
    return list_local_files(*url);
  } catch (const Error&) {  // for the step to miss: it may appear before the step runs
    return {};
  }
}

bool is_executable(const fs::path& file) {
  std::error_code none;
  return (fs::status(file, none).permissions() & fs::perms::owner_exec) != fs::perms::none && !none;
}

std::string content_of(const fs::path& file, FileHashes& hashes) {
  return hashes.sha256(file) + (is_executable(file) ? " executable" : "");
}

std::string data_identity(const std::string& place) {
  const std::vector<LocalFile> files = data_at(place);
  if (files.empty()) return "";
  Sha256 hash;
  for (const LocalFile& file : files) {
    hash.update(file.name + " " + to_string(identity_of(file.path)) + "\n");
  }
  return hash.hex();
}

}  // namespace dlflow
