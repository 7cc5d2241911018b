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

/// A cluster profile: what a cluster is called and offers. cluster-profiles/local.yaml documents
/// every key.
namespace dlflow {

struct Launcher {
  std::string program = "mpirun";      ///< mpirun, srun or a path
  std::vector<std::string> arguments;  ///< before the number of ranks
  bool operator==(const Launcher&) const = default;
};

/// The options of every sbatch call; an empty one is left out.
struct SlurmOptions {
  std::string partition;
  std::string account;
  std::string qos;
  std::string constraint;
  std::string reservation;
  bool exclusive = false;
  std::string gres = "gpu:{gpus}";   ///< per node; empty: --gpus-per-task
  std::vector<std::string> options;  ///< further ones, each "--x=y" or "--x"
  bool operator==(const SlurmOptions&) const = default;
};

/// Options of every qsub of Grid Engine; an empty one is not given.
struct GridEngineOptions {
  std::string queue;
  std::string project;
  std::string parallel_environment;  ///< of jobs with more than one slot, i.e. core
  std::string memory;                ///< the resource that limits a slot's: h_vmem
  std::string gpus;                  ///< how GPUs are asked for with -l: "gpu={gpus}"
  std::vector<std::string> options;  ///< further ones, each "-x y" or "-x"
  bool operator==(const GridEngineOptions&) const = default;
};

/// `slurm:` of a profile once it is checked, and as plan.json freezes it; so are the next ones.
DLFLOW_DEFINE_FIELDS(SlurmOptions, partition, account, qos, constraint, reservation, exclusive,
                     gres, options)

DLFLOW_DEFINE_FIELDS(GridEngineOptions, queue, project, parallel_environment, memory, gpus, options)

DLFLOW_DEFINE_FIELDS(Launcher, program, arguments)

/// The resources of one node; 0: not known.
struct NodeShape {
  int cores = 0;
  uint64_t memory_bytes = 0;
  int gpus = 0;
  bool operator==(const NodeShape&) const = default;
};

/// The limits of a cluster; 0: not limited here, and the cluster is asked.
struct Limits {
  std::chrono::seconds walltime{0};         ///< of a job
  int nodes = 0;                            ///< of a job
  int array_size = 0;                       ///< tasks of one array, and its highest index plus one
  int array_throttle = 0;                   ///< tasks of one array that run at a time
  int jobs = 0;                             ///< submitted at a time
  int dependencies = 0;                     ///< that one job may name
  std::chrono::seconds submit_interval{0};  ///< from one sbatch to the next
  bool operator==(const Limits&) const = default;
};

/// How steps with `image:` run.
struct ContainerSettings {
  std::string runtime = "none";        ///< none: such steps are refused; else see engine/container
  std::vector<std::string> command;    ///< how its program is called; empty: by its name
  std::string mode = "P1";             ///< of udocker
  std::vector<std::string> arguments;  ///< further ones for each start of a container
  std::vector<std::string> binds;      ///< "/data", "/site/data:/data", "/data:ro"
  bool operator==(const ContainerSettings&) const = default;
};

DLFLOW_DEFINE_FIELDS(ContainerSettings, runtime, command, mode, arguments, binds)

/// A class of a cluster's nodes, which steps are placed in. What its text does not say is the
/// profile's; here it is filled in.
struct NodeClass {
  std::string name;
  bool local = false;  ///< no jobs of the batch system: what it gets runs on the login node
  SlurmOptions slurm = {};
  GridEngineOptions gridengine = {};
  int ranks_per_node = 0;
  NodeShape node = {};
  Limits limits = {};
  Launcher launcher = {};
  std::vector<std::string> setup = {};
  bool operator==(const NodeClass&) const = default;
};

struct Profile {
  std::string name = "local";
  std::string file;                         ///< where it was read from; empty: built in
  std::vector<std::string> extended_files;  ///< the nearest first; a run does not record them
  std::string scheduler = "local";          ///< who starts jobs: local, slurm, gridengine
  int cores = 0;                            ///< local: 0 means all that this process may use
  uint64_t memory_bytes = 0;                ///< local: 0 means all
  int gpus = 0;
  SlurmOptions slurm;
  GridEngineOptions gridengine;
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
  uint64_t scratch_budget_bytes = 0;  ///< of copies of data there; 0: no limit
  int exclude_nodes = 2;              ///< that so many jobs were lost with; 0: none
  bool submit_from_jobs = true;       ///< a job may submit what it has listed, see extension.h
  std::vector<NodeClass> classes;     ///< in the order in which a step looks for one; see places.h

  bool operator==(const Profile&) const = default;
};

/// The profile as the jobs of a class see it.
Profile with_class(const Profile& profile, const NodeClass& node_class);
/// What `profile` says of what a class says.
NodeClass as_class(const Profile& profile, const std::string& name, bool local);

/// Whether a batch system gets the jobs.
bool has_batch_system(const Profile& profile);

/// The partition (Grid Engine: queue) that jobs go to; empty: the cluster's default one, or no
/// batch system.
const std::string& partition_of(const Profile& profile);
/// The key that sets it, for messages: "slurm.partition".
std::string partition_key(const Profile& profile);

/// Finds and reads the profile `name`: a path to a YAML file, or a name looked up in
/// ./cluster-profiles, ~/.config/dlflow/profiles ($XDG_CONFIG_HOME), the folders of
/// $DLFLOW_PROFILES, PREFIX/share/dlflow/cluster-profiles and /etc/dlflow/profiles; "local" is also
/// built in. Throws Error{NotFound} listing the names and the folders there are, or
/// Error{InvalidInput} with all diagnostics.
Profile load_profile(const std::string& name);

/// The text of cluster-profiles/local.yaml, the profile that needs no file.
std::string_view local_profile();

/// The file that load_profile(name) reads first; empty: it is built in, or there is none.
std::string profile_file(const std::string& name);

/// The profile that is used if none is named: $DLFLOW_PROFILE, else "local".
std::string default_profile();

/// The names of all profiles that load_profile finds, sorted.
std::vector<std::string> known_profiles();

/// $XDG_CONFIG_HOME/dlflow, else ~/.config/dlflow; nothing if no variable tells.
std::optional<std::filesystem::path> config_folder();

}  // namespace dlflow
