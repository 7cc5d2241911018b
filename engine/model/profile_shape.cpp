#include "engine/model/profile_shape.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/model/forms.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

bool is_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return uint8_t(c) < ' ' || c == 127; });
}

const Shape& size_or_zero() {
  static const Shape shape = either({formed(kSizeForm), number_between(0, 0)});
  return shape;
}

/// Options of sbatch that a profile must not set: dlflow sets them for each job, or they make
/// sbatch do something other than submit a job here and print its id.
constexpr std::array<std::string_view, 22> kOwnOptions = {
    "array",  "chdir",       "clusters", "comment",  "dependency", "error",
    "export", "export-file", "help",     "job-name", "no-requeue", "open-mode",
    "output", "parsable",    "quiet",    "requeue",  "signal",     "test-only",
    "usage",  "version",     "wait",     "wrap"};

bool is_sbatch_option(std::string_view text) {
  constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz-";
  if (!text.starts_with("--")) return false;
  const std::string_view name = text.substr(2, text.find('=') - 2);
  // sbatch accepts abbreviated names.
  const bool own = std::any_of(kOwnOptions.begin(), kOwnOptions.end(),
                               [name](std::string_view o) { return o.starts_with(name); });
  return !own && !name.empty() && name.find_first_not_of(kNameLetters) == name.npos &&
         is_line(text);
}

/// YAML reads "[--gres=gpu:2,nic:1]" as two entries.
std::string sbatch_option_advice(std::string_view text) {
  std::string word(text);
  if (const size_t space = text.find(' '); text.starts_with("--") && space != text.npos) {
    return "write " + word.replace(space, 1, "=");
  }
  if (text.starts_with("-") || text.find(' ') != text.npos) return "";
  return "an option begins with --, and a comma inside [ ] begins the next entry; write '--" +
         word + "', or put the whole option in quotes, '--OPTION=…," + word + "'";
}

const Form kSbatchOptionForm = {
    .what = "a free option of sbatch",
    .examples =
        "--hint=nomultithread, or another in its long form; dlflow itself sets --array, "
        "--dependency, --output, --signal; --clusters, --wait and --test-only are not for jobs",
    .pattern = "^--[a-z-]+(=.*)?$",
    .accepts = is_sbatch_option,
    .advice = sbatch_option_advice};

/// The same for qsub: options that dlflow sets, or that make qsub do something other than submit.
constexpr std::array<std::string_view, 27> kOwnQsubOptions = {
    "-@",    "-C",        "-N",           "-S", "-V",  "-b",      "-clear",  "-cwd", "-e",
    "-help", "-hold_jid", "-hold_jid_ad", "-i", "-j",  "-notify", "-now",    "-o",   "-pe",
    "-r",    "-shell",    "-sync",        "-t", "-tc", "-terse",  "-verify", "-w",   "-wd"};

bool is_qsub_option(std::string_view text) {
  constexpr std::string_view kQsubLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  const std::string_view name = text.substr(0, text.find(' '));
  const bool own =
      std::find(kOwnQsubOptions.begin(), kOwnQsubOptions.end(), name) != kOwnQsubOptions.end();
  return name.size() > 1 && name[0] == '-' && !own &&
         name.find_first_not_of(kQsubLetters, 1) == name.npos && is_line(text);
}

const Form kQsubOptionForm = {
    .what = "a free option of qsub",
    .examples =
        "'-l arch=lx-amd64' or '-R y'; dlflow itself sets -t, -pe, -hold_jid, -o, "
        "-notify; -sync, -verify and -now are not for jobs",
    .pattern = "^-[A-Za-z_]+( .*)?$",
    .accepts = is_qsub_option};

const Form kLineForm = {.what = "one line of text",
                        .examples = "it without control characters",
                        .pattern = "^[^\\x00-\\x1f]*$",
                        .accepts = is_line};

const Shape& slurm_shape() {
  static const Shape line = formed(kLineForm);
  static const Shape shape = object({
      {"partition", line, "Partition that jobs are submitted to", kOptional, ""},
      {"account", line, "Account or project that pays", kOptional, ""},
      {"qos", line, "Quality of service", kOptional, ""},
      {"constraint", line, "Features that nodes must have", kOptional, ""},
      {"reservation", line, "Reservation to run in", kOptional, ""},
      {"exclusive", boolean(), "Whether a job has its nodes to itself", kOptional, false},
      {"gres", line, "Resource that requests GPUs of a node", kOptional, "gpu:{gpus}"},
      {"options", list_of(formed(kSbatchOptionForm)), "Further options of sbatch", kOptional,
       Json::array()},
  });
  return shape;
}

const Shape& gridengine_shape() {
  static const Shape line = formed(kLineForm);
  static const Shape shape = object({
      {"queue", line, "Queue that jobs are submitted to", kOptional, ""},
      {"project", line, "Project that pays", kOptional, ""},
      {"parallel_environment", line, "Parallel environment of jobs with several cores", kOptional,
       ""},
      {"memory", line, "Resource that limits the memory of a slot", kOptional, ""},
      {"gpus", line, "Resource that requests GPUs of a job", kOptional, ""},
      {"options", list_of(formed(kQsubOptionForm)), "Further options of qsub", kOptional,
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
  static const Shape duration_or_zero = either({formed(kDurationForm), number_between(0, 0)});
  static const Shape shape = object({
      {"walltime", duration_or_zero, "Longest walltime of a job", kOptional, 0},
      {"nodes", integer(0), "Most nodes of a job", kOptional, 0},
      {"array_size", integer(0), "Most tasks of an array", kOptional, 0},
      {"array_throttle", integer(0), "Tasks of an array that run at a time", kOptional, 0},
      {"jobs", integer(0), "Most jobs submitted at a time", kOptional, 0},
      {"dependencies", integer(0), "Most jobs that one job may wait for", kOptional, 0},
      {"submit_interval", duration_or_zero, "Least time between two submissions", kOptional, 0},
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
       "Runtime of steps that have an image", kOptional, "none"},
      {"command", list_of(text()), "Program of the runtime, with its first arguments", kOptional,
       Json::array()},
      {"mode", choice({"P1", "P2", "R1", "R2", "R3"}), "Execution mode of udocker", kOptional,
       "P1"},
      {"arguments", list_of(text()), "Further arguments for each container", kOptional,
       Json::array()},
      {"binds", list_of(formed(bind)), "Folders of the host that containers see", kOptional,
       Json::array()},
  });
  return shape;
}

/// The same keys, without defaults.
Shape partly(Shape shape) {
  for (Field& field : shape.fields) field.fallback = nullptr;
  return shape;
}

Shape launcher_shape() {
  return object({
      {"program", formed(kPathForm), "mpirun, srun or a path", Presence::Required},
      {"arguments", list_of(text()), "Arguments before the number of ranks", kOptional,
       Json::array()},
  });
}

/// The shape of an entry of `classes`: settings that differ from the profile's.
Shape class_shape() {
  Shape limits = partly(limits_shape());
  std::erase_if(limits.fields, [](const Field& field) {
    return field.name != "walltime" && field.name != "nodes" && field.name != "array_throttle";
  });
  return object({
      {"local", boolean(), "Whether its steps run on the login node, without the batch system"},
      {"slurm", partly(slurm_shape()), "Options of sbatch"},
      {"gridengine", partly(gridengine_shape()), "Options of qsub"},
      {"ranks_per_node", integer(0), "Ranks of a step that share a node"},
      {"node", partly(node_shape()), "Resources of one node of the class"},
      {"limits", limits, "Limits on a job of the class"},
      {"launcher", launcher_shape(), "How steps with several ranks are started"},
      {"setup", list_of(text()), "Shell lines before each job"},
  });
}

}  // namespace

const Shape& profile_shape() {
  static const Shape paths = object({
      {"runs", formed(kPathForm), "Folder that holds the folders of runs", kOptional,
       "dlflow-runs"},
      {"cache", text(), "Folder of staged files", kOptional, ""},
      {"scratch", text(), "Folder on a node's own disk", kOptional, ""},
  });
  static const Shape shape = object({
      {"name", formed(kNameForm), "Name of the profile"},
      {"extends", formed(kNameForm), "Profile that provides the keys missing here"},
      {"scheduler", choice(schedulers()), "Batch system that starts jobs; local: dlflow itself"},
      {"cores", integer(0), "Cores that jobs may use together"},
      {"memory", size_or_zero(), "Memory that jobs may use together"},
      {"gpus", integer(0), "GPUs that jobs may use together"},
      {"slurm", slurm_shape(), "Options of every sbatch"},
      {"gridengine", gridengine_shape(), "Options of every qsub"},
      {"ranks_per_node", integer(0), "Ranks of a step that share a node"},
      {"node", node_shape(), "Resources of one node"},
      {"limits", limits_shape(), "Limits of the cluster"},
      {"launcher", launcher_shape(), "How steps with several ranks are started"},
      {"container", container_shape(), "How steps with an image run"},
      {"setup", list_of(text()), "Shell lines before each job"},
      {"environment", map_of(kVariableForm, scalar()), "Environment variables of each job"},
      {"inherit", list_of(formed(kInheritedForm)),
       "Further variables that jobs get from the caller"},
      {"paths", paths, "Folders"},
      {"cache_budget", size_or_zero(), "Maximum size of the cache"},
      {"scratch_budget", size_or_zero(), "Maximum size of all copies of data on a node's own disk"},
      {"exclude_nodes", integer(0), "Failures after which a node is excluded; 0: never"},
      {"submit_from_jobs", boolean(),
       "Whether a job may submit, from its node, the jobs of a list that it wrote"},
      {"classes", map_of(kNameForm, class_shape()), "Classes of nodes that steps are placed in"},
  });
  return shape;
}

const Shape& extending_profile_shape() {
  static const Shape shape = [] {
    Shape partial = profile_shape();
    for (Field& field : partial.fields) {
      // The arguments of a launcher are never inherited.
      if (field.name != "launcher") field.shape = partly(field.shape);
    }
    return partial;
  }();
  return shape;
}

}  // namespace dlflow
