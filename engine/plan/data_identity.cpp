#include "engine/plan/data_identity.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_identity.h"
#include "base/sha256.h"
#include "base/url.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

DataPlace data_of(const fs::path& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  if (!fs::is_directory(path)) return {{{"", path}}, {}};
  DataPlace place;
  const FolderContent content = content_below(path);
  for (const auto& entry : content.entries) {
    if (!entry.is_regular_file()) continue;
    place.files.push_back({entry.path().lexically_relative(path).string(), entry.path()});
  }
  for (const fs::path& folder : content.empty_folders) {
    place.empty_folders.push_back(folder.lexically_relative(path).string());
  }
  std::ranges::sort(place.files, {}, &LocalFile::name);
  std::ranges::sort(place.empty_folders);
  return place;
}

void add_places(const Json& value, std::vector<std::string>& places) {
  if (value.is_structured()) {
    for (const Json& part : value) add_places(part, places);
  }
  if (!value.is_string()) return;
  const auto& name = value.get_ref<const std::string&>();
  if (fs::path(name).is_absolute() || parse_file_url(name)) places.push_back(name);
}

}  // namespace

std::vector<std::string> places_in(const Json& value) {
  std::vector<std::string> places;
  add_places(value, places);
  return places;
}

DataPlace data_at(const std::string& place) {
  const auto url = parse_file_url(place);
  if (!url) return data_of(place);
  try {
    return {list_local_files(*url), {}};
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
  const DataPlace data = data_at(place);
  if (data.files.empty()) return "";
  Sha256 hash;
  for (const LocalFile& file : data.files) {
    hash.update(file.name + " " + to_string(identity_of(file.path)) + "\n");
  }
  for (const std::string& folder : data.empty_folders) hash.update(folder + "/\n");
  return hash.hex();
}

}  // namespace dlflow
