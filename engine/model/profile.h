#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fields.h"

/// A cluster profile describes a cluster. cluster-profiles/local.yaml documents every key.
namespace dlflow {

struct Launcher {
  std::string program = "mpirun";      ///< mpirun, srun or a path
  std::vector<std::string> arguments;  ///< placed before the number of ranks
  bool operator==(const Launcher&) const = default;
};

DLFLOW_DEFINE_FIELDS(Launcher, program, arguments)

/// The options of each batch system, with the keys of its BatchSection (schedulers.h).
using BatchOptions = std::map<std::string, Json>;

/// The resources of one node; 0: unknown.
struct NodeShape {
  int cores = 0;
  uint64_t memory_bytes = 0;
  int gpus = 0;
  bool operator==(const NodeShape&) const = default;
};

/// The limits of a cluster; 0: no limit from the profile, the cluster's own limit applies.
struct Limits {
  std::chrono::seconds walltime{0};         ///< of a job
  int nodes = 0;                            ///< of a job
  int array_size = 0;                       ///< tasks of one array, and the highest index plus one
  int array_throttle = 0;                   ///< tasks of one array that run at the same time
  int jobs = 0;                             ///< in the queue at the same time
  int dependencies = 0;                     ///< of one job
  std::chrono::seconds submit_interval{0};  ///< between two calls of sbatch
  bool operator==(const Limits&) const = default;
};

/// The settings for steps with `image:`.
struct ContainerSettings {
  std::string runtime = "none";  ///< none: such steps are refused; otherwise see engine/container
  std::vector<std::string> command;    ///< how to call its program; empty: by its name
  std::string mode = "P1";             ///< udocker's mode
  std::vector<std::string> arguments;  ///< added to each start of a container
  std::vector<std::string> binds;      ///< "/data", "/site/data:/data", "/data:ro"
  bool operator==(const ContainerSettings&) const = default;
};

DLFLOW_DEFINE_FIELDS(ContainerSettings, runtime, command, mode, arguments, binds)

/// A class of a cluster's nodes, in which steps are placed. Settings that its text omits are copied
/// from the profile.
struct NodeClass {
  std::string name;
  bool local = false;  ///< its jobs run on the login node, without the batch system
  BatchOptions batch_options = {};
  int ranks_per_node = 0;
  NodeShape node = {};
  Limits limits = {};
  Launcher launcher = {};
  std::vector<std::string> setup = {};
  bool operator==(const NodeClass&) const = default;
};

struct Profile {
  std::string name = "local";
  std::string file;                         ///< where the profile was read; empty: built in
  std::vector<std::string> extended_files;  ///< the nearest first; not recorded in a run
  std::string scheduler = "local";          ///< starts the jobs, see schedulers()
  int cores = 0;                            ///< local: 0 means all that this process may use
  uint64_t memory_bytes = 0;                ///< local: 0 means all
  int gpus = 0;
  BatchOptions batch_options;
  int ranks_per_node = 0;  ///< 0: the batch system decides
  NodeShape node;
  Limits limits;
  Launcher launcher;
  ContainerSettings container;
  std::vector<std::string> setup;  ///< shell lines before each job
  std::map<std::string, std::string> environment;
  std::vector<std::string> inherit;  ///< further variables that steps get from the caller: X, X_*
  std::filesystem::path runs = "dlflow-runs";
  std::filesystem::path cache;        ///< empty: $XDG_CACHE_HOME/dlflow
  uint64_t cache_budget_bytes = 0;    ///< 0: no limit
  std::filesystem::path scratch;      ///< on a node's own disk; empty: $TMPDIR of the job
  uint64_t scratch_budget_bytes = 0;  ///< for copies of data there; 0: no limit
  int exclude_nodes = 2;              ///< excludes nodes that lost so many jobs; 0: none
  bool submit_from_jobs = true;       ///< a job may submit listed jobs, see extension.h
  std::vector<NodeClass> classes;     ///< in the order in which steps try them; see places.h

  bool operator==(const Profile&) const = default;
};

/// The profile with the settings of a class.
Profile with_class(const Profile& profile, const NodeClass& node_class);
/// The settings of `profile` as a class.
NodeClass as_class(const Profile& profile, const std::string& name, bool local);

/// The options of `system` as its struct.
template <class Options>
Options batch_options(const Profile& profile, const std::string& system) {
  const auto options = profile.batch_options.find(system);
  return options == profile.batch_options.end() ? Options() : from_fields<Options>(options->second);
}

/// Whether jobs are submitted to a batch system.
bool has_batch_system(const Profile& profile);

/// The partition (Grid Engine: queue) that jobs go to; empty: the cluster's default one, or no
/// batch system.
const std::string& partition_of(const Profile& profile);
/// The key of the partition, for messages: "slurm.partition".
std::string partition_key(const Profile& profile);

/// Finds and reads the profile `name`: a path to a YAML file, or a name looked up in
/// ./cluster-profiles, ~/.config/dlflow/profiles ($XDG_CONFIG_HOME), the folders of
/// $DLFLOW_PROFILES, PREFIX/share/dlflow/cluster-profiles and /etc/dlflow/profiles; "local" is also
/// built in. Throws Error{NotFound} listing the known names and folders, or Error{InvalidInput}
/// with all diagnostics.
Profile load_profile(const std::string& name);

/// The text of cluster-profiles/local.yaml, which is built in.
std::string_view local_profile();

/// The file that load_profile(name) reads first; empty if it is built in or missing.
std::string profile_file(const std::string& name);

/// The profile to use if none is named: $DLFLOW_PROFILE, otherwise "local".
std::string default_profile();

/// The names of all profiles that load_profile finds, sorted.
std::vector<std::string> known_profiles();

/// $XDG_CONFIG_HOME/dlflow, otherwise ~/.config/dlflow; nothing if HOME is not set either.
std::optional<std::filesystem::path> config_folder();

}  // namespace dlflow
