#include "base/local_files.h"

#include <algorithm>

#include "base/error.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

void require_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return;
  if (fs::is_directory(path, error)) {
    throw Error(Errc::InvalidInput,
                path.string() + " is a folder; write a / at the end for all files in it");
  }
  if (!fs::exists(fs::symlink_status(path, error))) {
    throw Error(Errc::NotFound, path.string() + ": there is no such file");
  }
  throw Error(Errc::InvalidInput, path.string() + " is neither a file nor a folder");
}

std::vector<LocalFile> files_below(const fs::path& folder) {
  std::vector<LocalFile> files;
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  for (const auto& entry : fs::recursive_directory_iterator(folder, kFollow)) {
    if (entry.is_directory()) continue;
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
