#include "engine/plan/data_identity.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/file_identity.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The path of a file or folder; for a pattern, the path of its folder.
fs::path path_of(const std::string& place) {
  const auto url = parse_file_url(place);
  return url ? fs::path(url->path) : fs::path(place);
}

DataPlace data_of(const fs::path& path, OfTools of_tools) {
  if (!fs::exists(path)) return {};
  if (!fs::is_directory(path)) return {{{"", path}}, {}};
  DataPlace place;
  const FolderContent content = content_below(path, of_tools);
  for (const auto& entry : content.entries) {
    const std::string name = entry.path().lexically_relative(path).string();
    if (entry.is_regular_file() || entry.is_other()) {
      place.files.push_back({name, entry.path()});
    } else if (entry.is_symlink() && !entry.exists()) {
      const std::string target = fs::read_symlink(entry.path());
      place.others.push_back(name_in_line(name) + " -> " + name_in_line(target));
    }
  }
  for (const fs::path& folder : content.empty_folders) {
    place.others.push_back(name_in_line(folder.lexically_relative(path).string()) + "/");
  }
  std::ranges::sort(place.files, {}, &LocalFile::name);
  std::ranges::sort(place.others);
  return place;
}

struct DataState {
  std::string identity;
  std::chrono::nanoseconds to_settle{0};  ///< the longest that any file needs
};

/// Returns a different text each time, since nobody knows what is there.
std::string unknown_identity() {
  static uint64_t count = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return "unknown " + std::to_string(::getpid()) + " " + std::to_string(now) + " " +
         std::to_string(++count);
}

DataState known_state(const std::string& place) {
  const DataPlace data = data_at(place);
  DataState state;
  if (data.files.empty() && data.others.empty()) {
    if (fs::exists(path_of(place))) state.identity = "empty";
    return state;
  }
  Sha256 hash;
  for (const LocalFile& file : data.files) {
    const FileIdentity identity = identity_of(file.path);
    state.to_settle = std::max(state.to_settle, time_to_settle(identity));
    hash.update(name_in_line(file.name) + " " + to_string(identity) + "\n");
  }
  for (const std::string& other : data.others) hash.update(other + "\n");
  state.identity = hash.hex();
  return state;
}

DataState state_of(const std::string& place) {
  try {
    return known_state(place);
  } catch (const std::exception&) {
    return {.identity = unknown_identity()};
  }
}

void add_places(const Json& value, std::vector<std::string>& places) {
  if (value.is_structured()) {
    for (const Json& part : value) add_places(part, places);
  }
  if (!value.is_string()) return;
  const auto& name = value.get_ref<const std::string&>();
  if (fs::path(name).is_absolute() || parse_file_url(name)) places.push_back(name);
}

/// Appends the state of the links on the way to `path`, and of the links that these lead to.
void add_links(const fs::path& path, int depth, std::string& states) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  fs::path way;
  for (const fs::path& part : path) {
    way /= part;
    std::error_code none;
    if (!fs::is_symlink(way, none)) continue;
    states += to_string(identity_of_link(way)) + "\n";
    const fs::path target = way.parent_path() / fs::read_symlink(way, none);
    if (depth < kMostLinks) add_links(target.lexically_normal(), depth + 1, states);
  }
}

}  // namespace

std::vector<std::string> places_in(const Json& value) {
  std::vector<std::string> places;
  add_places(value, places);
  return places;
}

DataPlace data_at(const std::string& place) {
  const auto url = parse_file_url(place);
  if (!url) return data_of(place, OfTools::LeftOut);
  if (url->pattern.empty() || !fs::is_directory(url->path)) {
    return data_of(url->path, OfTools::Count);  // `stage` copies all
  }
  DataPlace data;
  for (const auto& entry : fs::directory_iterator(url->path)) {
    std::string name = entry.path().filename().string();
    if (matches(name, url->pattern) && !entry.is_directory()) {
      data.files.push_back({std::move(name), entry.path()});
    }
  }
  std::ranges::sort(data.files, {}, &LocalFile::name);
  return data;
}

bool is_executable(const fs::path& file) {
  std::error_code none;
  return (fs::status(file, none).permissions() & fs::perms::owner_exec) != fs::perms::none && !none;
}

std::string content_of(const fs::path& file, FileHashes& hashes) {
  return hashes.sha256(file) + (is_executable(file) ? " executable" : "");
}

std::string data_identity(const std::string& place) { return state_of(place).identity; }

std::string settled_identity(const std::string& place) {
  DataState state = state_of(place);
  if (state.to_settle.count() == 0) return std::move(state.identity);
  std::this_thread::sleep_for(state.to_settle);
  return state_of(place).identity;
}

std::string way_identity(const std::string& place) {
  const fs::path path = path_of(place);
  std::string states;
  add_links(path, 0, states);
  if (!fs::is_directory(path)) return states;
  std::vector<fs::path> folders = {path};
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  for (const auto& entry : fs::recursive_directory_iterator(path, kFollow)) {
    if (entry.is_symlink()) states += to_string(identity_of_link(entry.path())) + "\n";
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  for (const fs::path& folder : folders) states += to_string(identity_of(folder)) + "\n";
  return states;
}

}  // namespace dlflow
