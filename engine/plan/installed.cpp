#include "engine/plan/installed.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/url.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Whether Python can import the file; a project may also hold data and runs.
bool is_code(const fs::path& file) {
  constexpr std::array<std::string_view, 3> kEndings = {".py", ".pyx", ".so"};
  return std::ranges::find(kEndings, file.extension().string()) != kEndings.end();
}

/// Hidden folders, Python's caches, environments and runs are not part of a project's code.
bool is_left_out(const fs::path& folder) {
  std::error_code none;
  const std::string name = folder.filename().string();
  return name.starts_with('.') || name == "__pycache__" ||
         fs::exists(folder / "pyvenv.cfg", none) || fs::exists(folder / "plan.json", none);
}

/// Adds "src/net.py HASH" for a file, or for those below a folder; nothing if it does not exist.
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

/// Adds the modules that a project's installer has named, or all code if it has named none.
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

/// Adds the code of an editable package (`pip install -e`), or the commit of a package from a
/// repository (PEP 610).
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

/// Adds the hashes that the installer recorded for the package's code: builds of one version may
/// differ. "../../../bin/tool" contains the environment's path and is no module.
void add_record(const fs::path& package, std::vector<std::string>& lines) {
  const auto record = read_file_if_exists(package / "RECORD");
  if (!record) return;
  for (const std::string& line : split(*record, '\n')) {
    const fs::path file = line.substr(0, line.find(','));
    const bool tells_place = line.starts_with("../") || line.starts_with("__editable__");
    if (is_code(file) && !tells_place) lines.push_back(line);
  }
}

/// The folders below `prefix` that Python installs to; Debian calls its own dist-packages.
std::vector<fs::path> folders_of_packages(const fs::path& prefix) {
  std::vector<fs::path> folders;
  std::error_code none;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    if (fs::is_symlink(prefix / lib, none)) continue;
    for (const auto& python : fs::directory_iterator(prefix / lib, none)) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        if (fs::is_directory(python.path() / packages, none)) {
          folders.push_back(python.path() / packages);
        }
      }
    }
  }
  return folders;
}

/// Adds the code in the folders that a .pth file names.
void add_search_path(const fs::path& file, FileHashes& hashes, std::vector<std::string>& lines) {
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.empty() || line.starts_with('#') || line.starts_with("import")) continue;
    const fs::path place = file.parent_path() / std::string(trim(line));
    add_code(place, place, hashes, lines);
  }
}

/// Adds single-file modules such as sitecustomize.py, and .pth files, which Python reads at
/// startup. The .pth file of an editable package only names its place; add_origin() adds its code.
void add_loose_file(const fs::path& file, FileHashes& hashes, std::vector<std::string>& lines) {
  const std::string name = file.filename().string();
  const bool is_search_path = file.extension() == ".pth";
  if ((!is_search_path && !is_code(file)) || name.starts_with("__editable__")) return;
  lines.push_back(name + " " + hashes.sha256(file));
  if (is_search_path) add_search_path(file, hashes, lines);
}

/// Adds the packages that pip installed to a folder: "numpy-1.26.4.dist-info" has name and version.
void add_packages(const fs::path& folder, FileHashes& hashes, std::vector<std::string>& lines) {
  std::vector<fs::path> entries;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  const std::string python = folder.parent_path().filename().string();
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    std::vector<std::string> more;
    if (name.ends_with(".dist-info") || name.ends_with(".egg-info")) {
      lines.push_back(python + "/" + name);
      add_record(entry, more);
      add_origin(entry, hashes, more);
    } else if (fs::is_regular_file(entry, none)) {
      add_loose_file(entry, hashes, more);
    }
    std::sort(more.begin(), more.end());
    lines.insert(lines.end(), more.begin(), more.end());
  }
}

/// Adds pyvenv.cfg without the command that made the environment, which contains its path; also the
/// system's packages if the environment can see them.
void add_settings(const fs::path& venv, FileHashes& hashes, std::vector<std::string>& lines) {
  const auto text = read_file_if_exists(venv / "pyvenv.cfg");
  if (!text) return;
  fs::path home;
  bool sees_system = false;
  for (const std::string& line : split(*text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, equals));
    const std::string_view value = trim(std::string_view(line).substr(equals + 1));
    if (key == "command") continue;
    if (key == "home") home = value;
    if (key == "include-system-site-packages") sees_system = value != "false";
    lines.push_back(std::string(key) + " = " + std::string(value));
  }
  if (!sees_system) return;
  for (const fs::path& folder : folders_of_packages(home.parent_path())) {
    add_packages(folder, hashes, lines);
  }
}

/// Hashes a virtual environment: its interpreter, its settings, and the installed packages.
std::string packages_of_venv(const fs::path& venv, FileHashes& hashes) {
  std::vector<std::string> lines;
  std::error_code none;
  if (const fs::path python = fs::canonical(venv / "bin/python3", none); !none) {
    lines.push_back("python " + hashes.sha256(python));
  }
  add_settings(venv, hashes, lines);
  for (const fs::path& folder : folders_of_packages(venv)) add_packages(folder, hashes, lines);
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
