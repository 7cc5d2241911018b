#include "engine/model/profile.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/check.h"
#include "engine/model/forms.h"
#include "engine/model/local_profile.h"
#include "engine/model/yaml.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr Presence kOptional = Presence::Optional;

/// What a missing key means is in cluster-profiles/local.yaml, so that it is said once.
const Shape& profile_shape() {
  static const Shape size_or_zero = either({formed(size_form()), number_between(0, 0)});
  static const Shape launcher = object({
      {"program", formed(path_form()), "mpirun, srun or a path", Presence::Required},
      {"arguments", list_of(text()), "Before the number of ranks", kOptional, Json::array()},
  });
  static const Shape paths = object({
      {"runs", formed(path_form()), "Folder of the runs' folders", kOptional, "dlflow-runs"},
      {"cache", text(), "Folder of staged files", kOptional, ""},
  });
  static const Shape shape = object({
      {"name", formed(name_form()), "How the profile is called"},
      {"scheduler", choice({"local"}), "Who starts jobs"},
      {"cores", integer(0), "Cores that jobs may use together"},
      {"memory", size_or_zero, "Memory that jobs may use together"},
      {"gpus", integer(0), "GPUs that jobs may use together"},
      {"launcher", launcher, "How steps with several ranks are started"},
      {"setup", list_of(text()), "Shell lines before each job"},
      {"environment", map_of(variable_form(), scalar()), "Environment variables of each job"},
      {"paths", paths, "Folders"},
      {"cache_budget", size_or_zero, "Size that the cache is kept below"},
  });
  return shape;
}

[[noreturn]] void throw_mistakes(Mistakes& mistakes) {
  std::string message = "the profile cannot be used:";
  for (const Diagnostic& diagnostic : mistakes.take()) message += "\n" + to_string(diagnostic);
  throw Error(Errc::InvalidInput, message);
}

uint64_t size_from(const Json& json) {
  return json.is_string() ? parse_size(json.get_ref<const std::string&>()) : json.get<uint64_t>();
}

Profile profile_from(const Json& json) {
  Profile profile;
  profile.name = json.at("name");
  profile.scheduler = json.at("scheduler");
  profile.cores = json.at("cores");
  profile.memory_bytes = size_from(json.at("memory"));
  profile.gpus = json.at("gpus");
  profile.launcher = {json.at("launcher").at("program"), json.at("launcher").at("arguments")};
  profile.setup = json.at("setup").get<std::vector<std::string>>();
  for (const auto& [name, value] : json.at("environment").items()) {
    profile.environment[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  profile.runs = json.at("paths").at("runs").get<std::string>();
  profile.cache = json.at("paths").at("cache").get<std::string>();
  profile.cache_budget_bytes = size_from(json.at("cache_budget"));
  return profile;
}

Json read_profile(const std::string& text, const std::string& file) {
  Mistakes mistakes(file, text);
  const YamlPointer root = read_yaml(mistakes, {});
  if (!root) throw_mistakes(mistakes);
  const Names no_expressions;
  const auto json = Checker(mistakes, no_expressions)
                        .check(*root, profile_shape(), Scope::Nothing, {"", "the profile"});
  if (!json || mistakes.count() > 0) throw_mistakes(mistakes);
  return *json;
}

Profile parse_profile(const std::string& text, const std::string& file, const std::string& name) {
  Json json = read_profile(std::string(local_profile()), "local.yaml");
  json["name"] = name;
  json.update(read_profile(text, file));
  Profile profile = profile_from(json);
  profile.file = file;
  return profile;
}

std::vector<fs::path> profile_folders() {
  std::vector<fs::path> folders = {"cluster-profiles"};
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  if (config != nullptr && *config != '\0') {
    folders.push_back(fs::path(config) / "dlflow/profiles");
  } else if (home != nullptr && *home != '\0') {
    folders.push_back(fs::path(home) / ".config/dlflow/profiles");
  }
  return folders;
}

/// The names of all profiles that there are, sorted.
std::vector<std::string> known_profiles() {
  std::vector<std::string> names = {"local"};
  for (const fs::path& folder : profile_folders()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Profile load_profile(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".yaml")) {
    return parse_profile(read_file(name, kMaxFileBytes), name, fs::path(name).stem().string());
  }
  for (const fs::path& folder : profile_folders()) {
    const fs::path file = folder / (name + ".yaml");
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    return parse_profile(read_file(file, kMaxFileBytes), file.string(), name);
  }
  if (name == "local") return parse_profile(std::string(local_profile()), "", name);
  const std::vector<std::string> known = known_profiles();
  throw Error(Errc::NotFound, "there is no profile '" + name + "' among " + join(known, ", ") +
                                  ", from ./cluster-profiles and " +
                                  profile_folders().back().string() + did_you_mean(name, known));
}

}  // namespace dlflow
