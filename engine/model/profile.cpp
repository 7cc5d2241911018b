#include "engine/model/profile.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/check.h"
#include "engine/model/profile_shape.h"
#include "engine/model/schedulers.h"
#include "engine/model/yaml.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::string value_of(const std::string& name, const std::string& text, const std::string& key) {
  const char* const value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return value;
  throw Error(Errc::InvalidInput, key + ": " + text + " names $" + name +
                                      ", which is not set here; set it, or write the path");
}

bool is_name_character(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

/// The name behind a '$', with its braces: "{USER}" or "USER"; empty if there is none.
std::string_view variable_at(std::string_view text) {
  if (text.starts_with('{')) {
    const size_t end = text.find('}');
    return end == text.npos ? std::string_view() : text.substr(0, end + 1);
  }
  size_t length = 0;
  while (length < text.size() && is_name_character(text[length])) ++length;
  return text.substr(0, length);
}

/// Expands a leading "~/", $NAME and ${NAME} as a shell would, so that one profile serves several
/// users: "/scratch/$USER/runs". Throws Error{InvalidInput}, beginning with `key`, if a variable is
/// not set.
std::filesystem::path shell_path(const std::string& text, const std::string& key) {
  std::string path;
  std::string_view left = text;
  if (text == "~" || text.starts_with("~/")) {
    path = value_of("HOME", text, key);
    left.remove_prefix(1);
  }
  while (!left.empty()) {
    const size_t dollar = left.find('$');
    path += left.substr(0, dollar);
    if (dollar == left.npos) break;
    left.remove_prefix(dollar + 1);
    const std::string_view variable = variable_at(left);
    const bool has_braces = variable.starts_with('{');
    const std::string name(has_braces ? variable.substr(1, variable.size() - 2) : variable);
    path += name.empty() ? "$" : value_of(name, text, key);
    left.remove_prefix(name.empty() ? 0 : variable.size());
  }
  return path;
}

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
[[noreturn]] void throw_mistakes(Mistakes& mistakes) {
  std::string message = "the profile cannot be used:";
  for (const Diagnostic& diagnostic : mistakes.take()) message += "\n" + to_string(diagnostic);
  throw Error(Errc::InvalidInput, message);
}

uint64_t size_from(const Json& json) {
  return json.is_string() ? parse_size(json.get_ref<const std::string&>()) : json.get<uint64_t>();
}

std::chrono::seconds duration_from(const Json& json) {
  return json.is_string() ? parse_duration(json.get_ref<const std::string&>())
                          : std::chrono::seconds(0);
}

Limits limits_from(const Json& json) {
  return {.walltime = duration_from(json.at("walltime")),
          .nodes = json.at("nodes"),
          .array_size = json.at("array_size"),
          .array_throttle = json.at("array_throttle"),
          .jobs = json.at("jobs"),
          .dependencies = json.at("dependencies"),
          .submit_interval = duration_from(json.at("submit_interval"))};
}

fs::path path_of(const Json& json, const std::string& key) {
  return shell_path(json.at("paths").at(key).get<std::string>(),
                    "paths." + key + " of the profile");
}

Profile profile_from(const Json& json) {
  Profile profile;
  profile.name = json.at("name");
  profile.scheduler = json.at("scheduler");
  profile.cores = json.at("cores");
  profile.memory_bytes = size_from(json.at("memory"));
  profile.gpus = json.at("gpus");
  for (const auto& [system, section] : batch_sections()) {
    profile.batch_options[system] = json.value(system, Json::object());
  }
  profile.ranks_per_node = json.at("ranks_per_node");
  const Json& node = json.at("node");
  profile.node = {node.at("cores"), size_from(node.at("memory")), node.at("gpus")};
  profile.limits = limits_from(json.at("limits"));
  read_from(json.at("launcher"), profile.launcher);
  read_from(json.at("container"), profile.container);
  profile.setup = json.at("setup").get<std::vector<std::string>>();
  for (const auto& [name, value] : json.at("environment").items()) {
    profile.environment[name] = text_or_dump(value);
  }
  profile.inherit = json.at("inherit").get<std::vector<std::string>>();
  profile.runs = path_of(json, "runs");
  profile.cache = path_of(json, "cache");
  profile.scratch = path_of(json, "scratch");
  profile.cache_budget_bytes = size_from(json.at("cache_budget"));
  profile.scratch_budget_bytes = size_from(json.at("scratch_budget"));
  profile.exclude_nodes = json.at("exclude_nodes");
  profile.submit_from_jobs = json.at("submit_from_jobs");
  return profile;
}

constexpr const char* kExtends = "extends";
constexpr const char* kClassOrder = "class order";

/// Stores the order of the classes in the file, since the keys of `json` are sorted.
void note_class_order(const YamlNode& root, Json& json) {
  const YamlEntry* const classes = find_entry(root, "classes");
  if (classes == nullptr) return;
  for (const YamlEntry& entry : classes->value->entries) json[kClassOrder].push_back(entry.key);
}

Json read_profile(const std::string& text, const std::string& file) {
  Mistakes mistakes(file, text);
  const YamlPointer root = read_yaml(mistakes, {});
  if (!root) throw_mistakes(mistakes);
  for (const auto& [system, section] : batch_sections()) {
    const YamlEntry* entry = find_entry(*root, system);
    if (entry == nullptr) continue;
    if (find_entry(*root, "scheduler") || find_entry(*root, kExtends)) continue;
    mistakes.add(entry->location, "the profile has '" + system +
                                      "', but no scheduler, so jobs would run on this "
                                      "machine; write scheduler: " +
                                      system);
  }
  const Names no_expressions;
  const bool extends = find_entry(*root, kExtends) != nullptr;
  const Shape& shape = extends ? extending_profile_shape() : profile_shape();
  auto json =
      Checker(mistakes, no_expressions).check(*root, shape, Scope::Nothing, {"", "the profile"});
  if (!json || mistakes.count() > 0) throw_mistakes(mistakes);
  note_class_order(*root, *json);
  return *std::move(json);
}

/// The classes of a checked profile, each as the whole profile with the changes of the class.
std::vector<NodeClass> classes_from(const Json& json) {
  std::vector<NodeClass> classes;
  for (const Json& name : json.value(kClassOrder, Json::array())) {
    const Json& says = json.at("classes").at(name.get_ref<const std::string&>());
    Json whole = json;
    whole.merge_patch(says);
    classes.push_back(
        as_class(profile_from(whole), name.get<std::string>(), says.value("local", false)));
  }
  return classes;
}

/// The folders in which profiles are looked up, in this order.
std::vector<std::string> profile_folders() {
  std::vector<std::string> folders = {"cluster-profiles"};
  if (const auto config = config_folder()) folders.push_back(*config / "profiles");
  for (const std::string& folder : split(environment_variable("DLFLOW_PROFILES"), ':')) {
    if (!folder.empty()) folders.push_back(folder);
  }
  folders.push_back(this_program().parent_path().parent_path() / "share/dlflow/cluster-profiles");
  folders.emplace_back("/etc/dlflow/profiles");
  return folders;
}

struct ProfileSource {
  std::string name;
  std::string text;
  std::string file;         ///< empty if built in
  size_t folders_used = 0;  ///< number of folders up to its own; 0: it lies in none of them
};

/// Finds the first profile of this name, ignoring the first `skipped` folders.
std::optional<ProfileSource> find_profile(const std::string& name, size_t skipped = 0) {
  const std::vector<std::string> folders = profile_folders();
  for (size_t i = skipped; i < folders.size(); ++i) {
    const fs::path file = fs::path(folders[i]) / (name + ".yaml");
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const std::string text = read_file(file, kMaxFileBytes);
    const bool is_built_in = name == "local" && text == local_profile();
    return ProfileSource{name, text, is_built_in ? "" : file.string(), i + 1};
  }
  if (name != "local") return std::nullopt;
  return ProfileSource{name, std::string(local_profile()), "", folders.size()};
}

bool is_path(const std::string& profile) {
  return profile.find('/') != std::string::npos || profile.ends_with(".yaml");
}

ProfileSource read_source(const std::string& file) {
  ProfileSource source{fs::path(file).stem(), read_file(file, kMaxFileBytes), file};
  const std::vector<std::string> folders = profile_folders();
  const fs::path parent = fs::absolute(file).parent_path();
  const auto own = std::ranges::find_if(folders, [&parent](const std::string& folder) {
    std::error_code ignored;
    return fs::equivalent(folder, parent, ignored);
  });
  if (own != folders.end()) source.folders_used = size_t(own - folders.begin()) + 1;
  return source;
}

/// Finds the profile `name` that `source` extends, from the folder of `source` on. A profile of the
/// same name is looked up in later folders only.
ProfileSource base_of(const ProfileSource& source, const std::string& name) {
  const size_t skipped = name == source.name || source.folders_used == 0 ? source.folders_used
                                                                         : source.folders_used - 1;
  if (auto base = find_profile(name, skipped)) return *std::move(base);
  std::vector<std::string> folders = profile_folders();
  folders.erase(folders.begin(), folders.begin() + std::ptrdiff_t(skipped));
  throw Error(Errc::NotFound, source.file + " extends '" + name +
                                  "', but there is no such profile in " +
                                  (folders.empty() ? "a later folder" : join(folders, ", ")) +
                                  "; name its folder in DLFLOW_PROFILES, or correct `extends:`");
}

/// Returns `base` with the keys of `changes`; new classes come last.
Json extended(Json base, const Json& changes) {
  Json order = base.value(kClassOrder, Json::array());
  for (const Json& name : changes.value(kClassOrder, Json::array())) {
    if (std::ranges::find(order, name) == order.end()) order.push_back(name);
  }
  base.merge_patch(changes);
  base[kClassOrder] = order;
  return base;
}

/// Returns all keys of a profile. Adds the files of it and of the extended profiles to `files`.
Json all_keys(const ProfileSource& source, std::vector<std::string>& files) {
  const bool is_cycle = std::ranges::find(files, source.file) != files.end();
  files.push_back(source.file);
  if (is_cycle) {
    throw Error(Errc::InvalidInput, "profiles extend each other: " + join(files, ", ") +
                                        "; remove `extends:` from one of them");
  }
  const Json keys = read_profile(source.text, source.file);
  const auto base = keys.find(kExtends);
  Json all = base == keys.end() ? read_profile(std::string(local_profile()), "local.yaml")
                                : all_keys(base_of(source, *base), files);
  all["name"] = source.name;
  if (base != keys.end()) return extended(std::move(all), keys);
  all.update(keys);
  return all;
}

Profile parse_profile(const ProfileSource& source) {
  std::vector<std::string> files;
  const Json json = all_keys(source, files);
  Profile profile = profile_from(json);
  profile.classes = classes_from(json);
  profile.file = source.file;
  profile.extended_files.assign(files.begin() + 1, files.end());
  return profile;
}

/// Null if the jobs of `scheduler` run on this machine.
const BatchSection* find_section(const std::string& scheduler) {
  for (const auto& [system, section] : batch_sections()) {
    if (system == scheduler) return &section;
  }
  return nullptr;
}

}  // namespace

Profile with_class(const Profile& profile, const NodeClass& node_class) {
  Profile placed = profile;
  placed.batch_options = node_class.batch_options;
  placed.ranks_per_node = node_class.ranks_per_node;
  placed.node = node_class.node;
  placed.limits = node_class.limits;
  placed.launcher = node_class.launcher;
  placed.setup = node_class.setup;
  return placed;
}

NodeClass as_class(const Profile& profile, const std::string& name, bool local) {
  return {.name = name,
          .local = local,
          .batch_options = profile.batch_options,
          .ranks_per_node = profile.ranks_per_node,
          .node = profile.node,
          .limits = profile.limits,
          .launcher = profile.launcher,
          .setup = profile.setup};
}

bool has_batch_system(const Profile& profile) { return profile.scheduler != kLocalScheduler; }

const std::string& partition_of(const Profile& profile) {
  static const std::string none;
  const BatchSection* const section = find_section(profile.scheduler);
  const auto options = profile.batch_options.find(profile.scheduler);
  if (section == nullptr || options == profile.batch_options.end()) return none;
  const auto partition = options->second.find(section->partition);
  return partition == options->second.end() ? none : partition->get_ref<const std::string&>();
}

std::string partition_key(const Profile& profile) {
  const BatchSection* const section = find_section(profile.scheduler);
  return section == nullptr ? "" : profile.scheduler + "." + section->partition;
}

Profile load_profile(const std::string& name) {
  if (is_path(name)) return parse_profile(read_source(name));
  if (const auto source = find_profile(name)) return parse_profile(*source);
  const std::vector<std::string> known = known_profiles();
  const bool is_default = name == environment_variable("DLFLOW_PROFILE");
  throw Error(Errc::NotFound, "there is no profile '" + name + "'" +
                                  (is_default ? ", which $DLFLOW_PROFILE names" : "") +
                                  did_you_mean(name, known) + "; known: " + join(known, ", ") +
                                  " (searched: " + join(profile_folders(), ", ") +
                                  "); `dlflow profile detect` on a cluster writes one");
}

std::string profile_file(const std::string& name) {
  if (is_path(name)) return fs::exists(name) ? name : "";
  const auto source = find_profile(name);
  return source ? source->file : "";
}

std::string default_profile() {
  const std::string name = environment_variable("DLFLOW_PROFILE");
  return name.empty() ? "local" : name;
}

std::vector<std::string> known_profiles() {
  std::vector<std::string> names = {"local"};
  for (const std::string& folder : profile_folders()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<std::filesystem::path> config_folder() {
  const std::filesystem::path config = environment_variable("XDG_CONFIG_HOME");
  if (!config.empty()) return config / "dlflow";
  const std::filesystem::path home = environment_variable("HOME");
  if (!home.empty()) return home / ".config/dlflow";
  return std::nullopt;
}

}  // namespace dlflow
