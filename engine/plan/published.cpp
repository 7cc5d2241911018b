#include "engine/plan/published.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "base/url.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using Kind = PublishedEntry::Kind;

constexpr const char* kRecord = "published.jsonl";

void list_into(const fs::path& place, const std::string& name,
               std::vector<PublishedEntry>& entries) {
  const fs::file_status status = fs::symlink_status(place);
  if (fs::is_symlink(status)) {
    entries.push_back({.name = name, .kind = Kind::Link, .sha256 = fs::read_symlink(place)});
  } else if (fs::is_regular_file(status)) {
    entries.push_back(
        {.name = name, .identity = identity_of(place), .is_executable = is_executable(place)});
  } else if (fs::is_directory(status)) {
    entries.push_back({.name = name, .kind = Kind::Folder});
    for (const auto& entry : fs::directory_iterator(place)) {
      list_into(entry.path(), name + "/" + entry.path().filename().string(), entries);
    }
  } else {
    throw Error(Errc::InvalidInput,
                place.string() + " is neither a file nor a folder, and cannot be published");
  }
}

/// File names may hold any bytes, but JSON only Unicode: other names go to `KEY_encoded`.
void add_bytes(Json& json, const std::string& key, const std::string& bytes) {
  if (find_invalid_utf8(bytes) == std::string::npos) {
    json[key] = bytes;
  } else {
    json[key + "_encoded"] = percent_encoded(bytes);
  }
}

/// The inverse of add_bytes(); nothing if the key is missing.
std::optional<std::string> bytes_at(const Json& json, const std::string& key) {
  if (json.contains(key)) return json.at(key).get<std::string>();
  if (!json.contains(key + "_encoded")) return std::nullopt;
  return percent_decoded(json.at(key + "_encoded").get<std::string>());
}

Json to_json(const PublishedEntry& entry) {
  Json json = Json::object();
  add_bytes(json, "name", entry.name);
  switch (entry.kind) {
    case Kind::Folder:
      json["folder"] = true;
      return json;
    case Kind::Link:
      add_bytes(json, "link", entry.sha256);
      return json;
    case Kind::File:
      break;
  }
  json["size"] = entry.identity.size;
  json["mtime_ns"] = entry.identity.mtime_ns;
  json["ctime_ns"] = entry.identity.ctime_ns;
  json["inode"] = entry.identity.inode;
  if (entry.is_executable) json["executable"] = true;
  if (!entry.sha256.empty()) json["sha256"] = entry.sha256;
  return json;
}

PublishedEntry entry_from_json(const Json& json) {
  PublishedEntry entry{.name = bytes_at(json, "name").value()};
  if (json.contains("folder")) {
    entry.kind = Kind::Folder;
  } else if (const auto target = bytes_at(json, "link")) {
    entry.kind = Kind::Link;
    entry.sha256 = *target;
  } else {
    entry.identity = {json.at("size").get<int64_t>(), json.at("mtime_ns").get<int64_t>(),
                      json.at("ctime_ns").get<int64_t>(), json.at("inode").get<int64_t>()};
    entry.is_executable = json.value("executable", false);
    entry.sha256 = json.value("sha256", "");
  }
  return entry;
}

/// Returns nothing if the record is missing or damaged.
std::optional<Publication> read_publication(const fs::path& pass_folder) {
  const auto text = read_file_if_exists(pass_folder / kRecord);
  if (!text) return std::nullopt;
  try {
    std::istringstream lines(*text);
    std::string line;
    std::getline(lines, line);
    const Json head = parse_json_or_throw(line, kRecord);
    Publication publication;
    head.at("trees").get_to(publication.trees);
    head.at("outside").get_to(publication.outside);
    while (std::getline(lines, line)) {
      publication.entries.push_back(entry_from_json(parse_json_or_throw(line, kRecord)));
    }
    const bool is_whole = publication.entries.size() == head.at("entries").get<size_t>();
    return is_whole ? std::optional(std::move(publication)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

const Publication& nothing_published() {
  static const Publication nothing = {
      .trees = {"outputs"}, .entries = {{.name = "outputs", .kind = Kind::Folder}}, .outside = {}};
  return nothing;
}

/// A file without a hash counts as the same if size, modification time and inode are. Its ctime may
/// differ: another link to a file of the cache changes it.
bool is_same_file(const PublishedEntry& then, const PublishedEntry& now, const fs::path& file,
                  FileHashes& hashes) {
  if (then.identity == now.identity) return true;
  if (then.identity.size != now.identity.size) return false;
  if (!then.sha256.empty()) return hashes.sha256(file) == then.sha256;
  return then.identity.mtime_ns == now.identity.mtime_ns &&
         then.identity.inode == now.identity.inode;
}

bool is_same(const PublishedEntry& then, const PublishedEntry& now, const fs::path& place,
             FileHashes& hashes) {
  if (then.kind != now.kind || then.is_executable != now.is_executable) return false;
  if (then.kind == Kind::File) return is_same_file(then, now, place, hashes);
  return then.sha256 == now.sha256;
}

/// Whether one of `trees` holds the target of `link`.
bool is_recorded(const fs::path& link, const std::vector<std::string>& trees,
                 const fs::path& job_directory) {
  const fs::path target = fs::weakly_canonical(link);
  return std::ranges::any_of(trees, [&](const std::string& tree) {
    return is_below(target, fs::canonical(job_directory / tree));
  });
}

/// The outputs of the published pass: "outputs" is a link to them.
fs::path published_folder(const fs::path& job_directory) {
  std::error_code no_link;
  return job_directory / fs::read_symlink(job_directory / "outputs", no_link);
}

std::optional<std::string> compare(const Publication& then, const fs::path& job_directory,
                                   const fs::path& outputs, FileHashes& hashes) {
  std::map<std::string, PublishedEntry> now;
  for (const std::string& tree : then.trees) {
    const fs::path place = tree == "outputs" ? outputs : job_directory / tree;
    if (!fs::exists(place)) return tree + " is gone";
    const bool is_link = fs::is_symlink(place);
    for (PublishedEntry& entry : list_published(is_link ? fs::canonical(place) : place, tree)) {
      now.emplace(entry.name, std::move(entry));
    }
  }
  for (const PublishedEntry& entry : then.entries) {
    const auto found = now.find(entry.name);
    if (found == now.end()) return entry.name + " is gone";
    if (!is_same(entry, found->second, job_directory / entry.name, hashes)) {
      return entry.name + " was changed";
    }
    if (entry.kind == Kind::Link &&
        !is_recorded(job_directory / entry.name, then.trees, job_directory)) {
      return entry.name +
             " is a link to something that is not on record";  // recorded by an older dlflow
    }
    now.erase(found);
  }
  if (!now.empty()) return now.begin()->first + " was added";
  for (const auto& [path, identity] : then.outside) {
    if (data_identity(path) != identity) return path + " was changed";
  }
  return std::nullopt;
}

}  // namespace

bool is_empty(const Publication& publication) {
  const auto is_tree = [](const PublishedEntry& entry) {
    return entry.kind == Kind::Folder && entry.name == "outputs";
  };
  return publication.trees == nothing_published().trees && publication.outside.empty() &&
         publication.entries.size() == 1 && is_tree(publication.entries.front());
}

std::vector<PublishedEntry> list_published(const fs::path& place, const std::string& name) {
  std::vector<PublishedEntry> entries;
  list_into(place, name, entries);
  std::sort(entries.begin(), entries.end(),
            [](const PublishedEntry& a, const PublishedEntry& b) { return a.name < b.name; });
  return entries;
}

void write_publication(const fs::path& pass_folder, const Publication& publication) {
  const Json head = {{"trees", publication.trees},
                     {"outside", publication.outside},
                     {"entries", publication.entries.size()}};
  std::string text = head.dump() + "\n";
  for (const PublishedEntry& entry : publication.entries) {
    text += to_json(entry).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  write_file(pass_folder / kRecord, text);  // complete once the end of the pass is recorded
}

void link_outputs(const fs::path& job_directory, const fs::path& outputs) {
  const fs::path link = job_directory / "outputs";
  const fs::path temporary = job_directory / ("outputs.tmp." + std::to_string(::getpid()));
  const std::string target = outputs.lexically_relative(job_directory);
  if (::symlink(target.c_str(), link.c_str()) == 0) return;  // nothing was published before
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 ||
      ::rename(temporary.c_str(), link.c_str()) != 0) {
    throw_errno("cannot create " + link.string(), errno);
  }
}

std::optional<std::string> find_change(const fs::path& job_directory, FileHashes& hashes,
                                       bool published_nothing) {
  try {
    if (!fs::exists(job_directory / "outputs")) return "outputs is gone";
    const fs::path outputs = published_folder(job_directory);
    if (const auto publication = read_publication(outputs.parent_path())) {
      return compare(*publication, job_directory, outputs, hashes);
    }
    const auto result = published_nothing ? std::nullopt : published_result(job_directory);
    if (published_nothing || (result && result->published_nothing)) {
      return compare(nothing_published(), job_directory, outputs, hashes);
    }
    return "the record of what was published is gone";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<fs::path> linked_places(const fs::path& job_directory) {
  std::error_code none;
  const fs::path outputs = fs::canonical(job_directory / "outputs", none);
  const auto publication = none ? std::nullopt : read_publication(outputs.parent_path());
  std::vector<fs::path> places;
  if (!publication) return places;
  for (const std::string& tree : publication->trees) {
    if (fs::path(tree).is_absolute()) places.emplace_back(tree);
  }
  return places;
}

bool has_result(const fs::path& job_directory) {
  std::error_code none;
  const auto is_there = [&](const fs::path& path) {
    return fs::exists(fs::symlink_status(path, none));
  };
  // Opening the folder makes a network file system refresh its cached view.
  const fs::directory_iterator looked_anew(job_directory, none);
  const auto result = published_result(job_directory);
  const fs::path outputs = published_folder(job_directory);
  if (!result || !fs::exists(outputs, none)) return false;
  for (const Json& output : result->outputs) {
    const Json value = output.value("value", Json());
    if (!value.is_string()) continue;
    const fs::path path = value.get<std::string>();
    if (is_below(path, job_directory) && !is_there(path)) return false;
  }
  const auto publication = read_publication(outputs.parent_path());
  if (!publication) return true;  // from an older dlflow, or empty
  return std::ranges::all_of(publication->entries, [&](const PublishedEntry& entry) {
    return !entry.name.starts_with("outputs/") || is_there(job_directory / entry.name);
  });
}

}  // namespace dlflow
