#include "engine/plan/installed.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Code that Python finds by its name. Not what else lies in a project, such as data and runs.
bool is_code(const fs::path& file) {
  constexpr std::array<std::string_view, 3> kEndings = {".py", ".pyx", ".so"};
  return std::ranges::find(kEndings, file.extension().string()) != kEndings.end();
}

/// Hidden folders, what Python keeps, environments and runs are no part of a project's code.
bool is_left_out(const fs::path& folder) {
  std::error_code none;
  const std::string name = folder.filename().string();
  return name.starts_with('.') || name == "__pycache__" ||
         fs::exists(folder / "pyvenv.cfg", none) || fs::exists(folder / "plan.json", none);
}

/// "src/net.py HASH" of a file, or of those below a folder. Nothing if it is not there.
void add_code(const fs::path& place, const fs::path& project, FileHashes& hashes,
              std::vector<std::string>& lines) {
  std::error_code none;
  const auto add = [&](const fs::path& file) {
    lines.push_back(file.lexically_relative(project).string() + " " + hashes.sha256(file));
  };
  if (fs::is_regular_file(place, none) && is_code(place)) add(place);
  for (auto at = fs::recursive_directory_iterator(place, none);
       at != fs::recursive_directory_iterator(); at.increment(none)) {
    if (at->is_directory(none) && is_left_out(at->path())) at.disable_recursion_pending();
    if (at->is_regular_file(none) && is_code(at->path())) add(at->path());
  }
}

/// The modules of a project that its installer has named, or else all of it.
void add_project(const fs::path& project, const std::optional<std::string>& modules,
                 FileHashes& hashes, std::vector<std::string>& lines) {
  if (!modules) return add_code(project, project, hashes, lines);
  std::istringstream words(*modules);
  for (std::string name; words >> name;) {
    for (const fs::path& folder : {project, project / "src"}) {
      add_code(folder / name, project, hashes, lines);
      add_code(folder / (name + ".py"), project, hashes, lines);
    }
  }
}

/// Of a package that is no copy (`pip install -e`) its code; of one of a repository the commit
/// (PEP 610).
void add_origin(const fs::path& package, FileHashes& hashes, std::vector<std::string>& lines) {
  const auto text = read_file_if_exists(package / "direct_url.json");
  const Json origin = text ? parse_json(*text, kForeignJson) : Json();
  if (!origin.is_object()) return;
  const Json commit = origin.value("vcs_info", Json::object());
  if (commit.is_object() && commit.contains("commit_id")) {
    lines.push_back(commit.at("commit_id").dump());
  }
  const Json folder = origin.value("dir_info", Json::object());
  const bool is_editable = folder.is_object() && folder.value("editable", Json()) == true;
  const Json url = origin.value("url", Json());
  if (!is_editable || !url.is_string()) return;
  const auto place = parse_file_url(url.get_ref<const std::string&>());
  if (!place) return;
  add_project(place->path, read_file_if_exists(package / "top_level.txt"), hashes, lines);
}

/// The hashes of its code that the installer has written down: another build may have the same
/// version. "../../../bin/tool" names the place of the environment and is no module.
void add_record(const fs::path& package, std::vector<std::string>& lines) {
  const auto record = read_file_if_exists(package / "RECORD");
  if (!record) return;
  for (const std::string& line : split(*record, '\n')) {
    const fs::path file = line.substr(0, line.find(','));
    const bool tells_place = line.starts_with("../") || line.starts_with("__editable__");
    if (is_code(file) && !tells_place) lines.push_back(line);
  }
}

std::vector<fs::path> packages_in(const fs::path& venv) {
  std::vector<fs::path> packages;
  std::error_code none;
  for (const auto& python : fs::directory_iterator(venv / "lib", none)) {
    for (const auto& entry : fs::directory_iterator(python.path() / "site-packages", none)) {
      const std::string name = entry.path().filename().string();
      const bool says_version = name.ends_with(".dist-info") || name.ends_with(".egg-info");
      if (says_version) packages.push_back(entry.path());
    }
  }
  std::sort(packages.begin(), packages.end());
  return packages;
}

/// What is in the folders that pip installs to: "numpy-1.26.4.dist-info" says what and which.
std::string packages_of_venv(const fs::path& venv, FileHashes& hashes) {
  std::vector<std::string> lines;
  for (const fs::path& package : packages_in(venv)) {
    const fs::path python = package.parent_path().parent_path();
    lines.push_back(python.filename().string() + "/" + package.filename().string());
    std::vector<std::string> more;
    add_record(package, more);
    add_origin(package, hashes, more);
    std::sort(more.begin(), more.end());
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return sha256_hex(join(lines, "\n"));
}

}  // namespace

std::string installed_packages(const fs::path& lock, FileHashes& hashes) {
  std::error_code none;
  if (fs::is_regular_file(lock, none)) return hashes.sha256(lock);
  return fs::is_directory(lock, none) ? packages_of_venv(lock, hashes) : "";
}

std::string unknown_packages(const fs::path& lock) {
  return "the packages of its `environment:` are not known: " + lock.string() +
         " was not there when the run was planned";
}

}  // namespace dlflow
