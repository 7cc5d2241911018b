#include "engine/model/profile.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/check.h"
#include "engine/model/config_folder.h"
#include "engine/model/forms.h"
#include "engine/model/local_profile.h"
#include "engine/model/yaml.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

bool is_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return uint8_t(c) < ' ' || c == 127; });
}

const Shape& size_or_zero() {
  static const Shape shape = either({formed(size_form()), number_between(0, 0)});
  return shape;
}

/// Options of sbatch that dlflow decides for each job, where a second one would undo the first, and
/// those with which sbatch does something else than to submit a job here and to say its id.
constexpr std::array<std::string_view, 22> kOwnOptions = {
    "array",  "chdir",       "clusters", "comment",  "dependency", "error",
    "export", "export-file", "help",     "job-name", "no-requeue", "open-mode",
    "output", "parsable",    "quiet",    "requeue",  "signal",     "test-only",
    "usage",  "version",     "wait",     "wrap"};

bool is_sbatch_option(std::string_view text) {
  constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz-";
  if (!text.starts_with("--")) return false;
  const std::string_view name = text.substr(2, text.find('=') - 2);
  // sbatch takes the start of a name for it.
  const bool own = std::any_of(kOwnOptions.begin(), kOwnOptions.end(),
                               [name](std::string_view o) { return o.starts_with(name); });
  return !own && !name.empty() && name.find_first_not_of(kNameLetters) == name.npos &&
         is_line(text);
}

const Form& sbatch_option_form() {
  static const Form form = {
      .what = "a free option of sbatch",
      .examples =
          "--hint=nomultithread or such, spelled out; dlflow itself decides on --array, "
          "--dependency, --output, --signal, and --clusters, --wait, --test-only are not for jobs",
      .pattern = "^--[a-z-]+(=.*)?$",
      .accepts = is_sbatch_option};
  return form;
}

const Form& line_form() {
  static const Form form = {.what = "one line of text",
                            .examples = "it without control characters",
                            .pattern = "^[^\\x00-\\x1f]*$",
                            .accepts = is_line};
  return form;
}

const Shape& slurm_shape() {
  static const Shape line = formed(line_form());
  static const Shape shape = object({
      {"partition", line, "Partition that jobs are submitted to", kOptional, ""},
      {"account", line, "Account or project that pays", kOptional, ""},
      {"qos", line, "Quality of service", kOptional, ""},
      {"constraint", line, "Features that nodes must have", kOptional, ""},
      {"reservation", line, "Reservation to run in", kOptional, ""},
      {"exclusive", boolean(), "Whether a job has its nodes for itself", kOptional, false},
      {"gres", line, "How GPUs of a node are asked for", kOptional, "gpu:{gpus}"},
      {"options", list_of(formed(sbatch_option_form())), "Further options of sbatch", kOptional,
       Json::array()},
  });
  return shape;
}

const Shape& node_shape() {
  static const Shape shape = object({
      {"cores", integer(0), "Cores of a node", kOptional, 0},
      {"memory", size_or_zero(), "Memory of a node that jobs may use", kOptional, 0},
      {"gpus", integer(0), "GPUs of a node", kOptional, 0},
  });
  return shape;
}

const Shape& limits_shape() {
  static const Shape duration_or_zero = either({formed(duration_form()), number_between(0, 0)});
  static const Shape shape = object({
      {"walltime", duration_or_zero, "Longest walltime of a job", kOptional, 0},
      {"nodes", integer(0), "Most nodes of a job", kOptional, 0},
      {"array_size", integer(0), "Most tasks of an array", kOptional, 0},
      {"array_throttle", integer(0), "Tasks of an array that run at a time", kOptional, 0},
      {"jobs", integer(0), "Most jobs submitted at a time", kOptional, 0},
      {"dependencies", integer(0), "Most jobs that one job may wait for", kOptional, 0},
      {"submit_interval", duration_or_zero, "Least time from one sbatch to the next", kOptional, 0},
  });
  return shape;
}

bool is_bind(std::string_view text) { return text.starts_with('/') && is_line(text); }

const Shape& container_shape() {
  static const Form bind = {.what = "a folder to bind",
                            .examples = "/data, /site/data:/data or /data:ro",
                            .pattern = "^/[^\\x00-\\x1f]*$",
                            .accepts = is_bind};
  static const Shape shape = object({
      {"runtime",
       choice({"none", "udocker", "charliecloud", "apptainer", "singularity", "podman",
               "bubblewrap", "docker", "pyxis"}),
       "What runs steps that have an image", kOptional, "none"},
      {"command", list_of(text()), "How the runtime is called", kOptional, Json::array()},
      {"mode", choice({"P1", "P2", "R1", "R2", "R3"}), "Execution mode of udocker", kOptional,
       "P1"},
      {"arguments", list_of(text()), "Further arguments for each container", kOptional,
       Json::array()},
      {"binds", list_of(formed(bind)), "Folders of the host that containers see", kOptional,
       Json::array()},
  });
  return shape;
}

bool is_variable_pattern(std::string_view text) {
  if (text.ends_with('*')) text.remove_suffix(1);
  return variable_form().accepts(text);
}

/// What a missing key means is in cluster-profiles/local.yaml, so that it is said once.
const Shape& profile_shape() {
  static const Shape launcher = object({
      {"program", formed(path_form()), "mpirun, srun or a path", Presence::Required},
      {"arguments", list_of(text()), "Before the number of ranks", kOptional, Json::array()},
  });
  static const Shape paths = object({
      {"runs", formed(path_form()), "Folder of the runs' folders", kOptional, "dlflow-runs"},
      {"cache", text(), "Folder of staged files", kOptional, ""},
      {"scratch", text(), "Folder on a node's own disk", kOptional, ""},
  });
  static const Form inherit = {.what = "the name of an environment variable, or how some begin",
                               .examples = "WANDB_MODE or WANDB_*",
                               .pattern = "^[A-Za-z_][A-Za-z0-9_]*[*]?$",
                               .accepts = is_variable_pattern};
  static const Shape shape = object({
      {"name", formed(name_form()), "How the profile is called"},
      {"scheduler", choice({"local", "slurm"}), "Who starts jobs"},
      {"cores", integer(0), "Cores that jobs may use together"},
      {"memory", size_or_zero(), "Memory that jobs may use together"},
      {"gpus", integer(0), "GPUs that jobs may use together"},
      {"slurm", slurm_shape(), "What every sbatch is told"},
      {"ranks_per_node", integer(0), "Ranks of a step that share a node"},
      {"node", node_shape(), "What one node offers"},
      {"limits", limits_shape(), "What the cluster allows"},
      {"launcher", launcher, "How steps with several ranks are started"},
      {"container", container_shape(), "How steps with an image run"},
      {"setup", list_of(text()), "Shell lines before each job"},
      {"environment", map_of(variable_form(), scalar()), "Environment variables of each job"},
      {"inherit", list_of(formed(inherit)), "Further variables that jobs get from the caller"},
      {"paths", paths, "Folders"},
      {"cache_budget", size_or_zero(), "Size that the cache is kept below"},
      {"scratch_budget", size_or_zero(), "Size of all copies of data on a node's own disk"},
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

Profile profile_from(const Json& json) {
  Profile profile;
  profile.name = json.at("name");
  profile.scheduler = json.at("scheduler");
  profile.cores = json.at("cores");
  profile.memory_bytes = size_from(json.at("memory"));
  profile.gpus = json.at("gpus");
  profile.slurm = slurm_options_from_json(json.at("slurm"));
  profile.ranks_per_node = json.at("ranks_per_node");
  const Json& node = json.at("node");
  profile.node = {node.at("cores"), size_from(node.at("memory")), node.at("gpus")};
  profile.limits = limits_from(json.at("limits"));
  profile.launcher = {json.at("launcher").at("program"), json.at("launcher").at("arguments")};
  profile.container = container_settings_from_json(json.at("container"));
  profile.setup = json.at("setup").get<std::vector<std::string>>();
  for (const auto& [name, value] : json.at("environment").items()) {
    profile.environment[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  profile.inherit = json.at("inherit").get<std::vector<std::string>>();
  profile.runs = json.at("paths").at("runs").get<std::string>();
  profile.cache = json.at("paths").at("cache").get<std::string>();
  profile.scratch = json.at("paths").at("scratch").get<std::string>();
  profile.cache_budget_bytes = size_from(json.at("cache_budget"));
  profile.scratch_budget_bytes = size_from(json.at("scratch_budget"));
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
  if (const auto config = config_folder()) folders.push_back(*config / "profiles");
  return folders;
}

}  // namespace

const std::string& partition_of(const Profile& profile) { return profile.slurm.partition; }

std::string partition_key(const Profile& profile) { return profile.scheduler + ".partition"; }

SlurmOptions slurm_options_from_json(const Json& json) {
  return {.partition = json.at("partition"),
          .account = json.at("account"),
          .qos = json.at("qos"),
          .constraint = json.at("constraint"),
          .reservation = json.at("reservation"),
          .exclusive = json.at("exclusive"),
          .gres = json.at("gres"),
          .options = json.at("options")};
}

ContainerSettings container_settings_from_json(const Json& json) {
  return {.runtime = json.at("runtime"),
          .command = json.at("command"),
          .mode = json.at("mode"),
          .arguments = json.at("arguments"),
          .binds = json.at("binds")};
}

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

}  // namespace dlflow
