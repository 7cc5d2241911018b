#include "engine/slurm/detect.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/batch/container_probe.h"
#include "engine/batch/tool_runner.h"
#include "engine/container/runtime.h"
#include "engine/model/profile_text.h"
#include "engine/slurm/output.h"

namespace dlflow {
namespace {

const PartitionInfo& chosen_partition(const ClusterLimits& limits, const std::string& wanted) {
  if (const PartitionInfo* const partition = limits.partition(wanted)) return *partition;
  std::vector<std::string> names;
  for (const PartitionInfo& partition : limits.partitions) names.push_back(partition.name);
  const std::string known = join(names, ", ");
  throw Error(Errc::NotFound, wanted.empty()
                                  ? limits.cluster + " has no default partition; choose one of " +
                                        known + " with --partition"
                                  : limits.cluster + " has no partition '" + wanted + "' among " +
                                        known + did_you_mean(wanted, names));
}

/// "batch (default): 2 nodes of 2 cores, 7.8 GiB; at most 5:00"
std::string summary(const PartitionInfo& partition) {
  std::string text = partition.name + (partition.is_default ? " (default): " : ": ") +
                     std::to_string(partition.nodes) + " nodes of " +
                     std::to_string(partition.node.cores) + " cores, " +
                     format_size(partition.node.memory_bytes);
  if (partition.node.gpus > 0) text += ", " + std::to_string(partition.node.gpus) + " GPUs";
  if (!partition.gpu_types.empty()) text += " (" + join(partition.gpu_types, ", ") + ")";
  if (partition.max_walltime) text += "; at most " + format_duration(*partition.max_walltime);
  return text + (partition.is_up ? "" : "; takes no jobs now");
}

std::string account_lines(const std::vector<std::string>& accounts) {
  if (accounts.size() == 1) return "  account: " + yaml_text(accounts[0]) + "\n";
  if (accounts.empty()) return "  # Your project, if the site requires one.\n  account: \"\"\n";
  return "  # One of " + join(accounts, ", ") + ".\n  account: \"\"\n";
}

std::string launcher_lines(const DetectedCluster& cluster) {
  const auto& types = cluster.mpi_types;
  const bool pmix = std::any_of(types.begin(), types.end(),
                                [](const std::string& type) { return type.starts_with("pmix"); });
  if (pmix) return "launcher:\n  program: srun\n  arguments: [--mpi=pmix]\n";
  const auto mpirun = cluster.found.find("mpirun");
  const bool has_mpirun = mpirun != cluster.found.end();
  return "# srun has no --mpi=pmix here, which Open MPI needs; " +
         (has_mpirun ? "mpirun is " + mpirun->second
                     : std::string("load the module that has mpirun in `setup`")) +
         ".\nlauncher:\n  program: mpirun\n  arguments: [--bind-to, none]\n";
}

std::string limit_lines(const ClusterLimits& limits, const PartitionInfo& partition,
                        int submit_limit) {
  std::string text = "limits:\n";
  if (partition.max_walltime) {
    text += "  walltime: " + yaml_duration(*partition.max_walltime) + "\n";
  }
  text += "  nodes: " + std::to_string(partition.max_nodes.value_or(partition.nodes)) + "\n";
  text += "  array_size: " + std::to_string(limits.max_array_size) + "\n";
  text +=
      submit_limit > 0
          ? "  # How many jobs a user may have at a time, as the association and its QOS allow.\n"
          : "  # How many jobs a user may have at a time; see the site's documentation.\n";
  return text + "  jobs: " + std::to_string(submit_limit) + "\n";
}

std::string container_lines(const std::map<std::string, std::string>& found, std::string runtime) {
  std::vector<std::string> tools;
  for (const ContainerRuntime& known : runtimes()) {
    const auto tool = found.find(std::string(known.sign()));
    if (tool == found.end()) continue;
    tools.push_back(tool->second);
    if (runtime.empty()) runtime = known.name;
  }
  if (tools.empty()) {
    return "# No container tool in PATH here; a module may have one, for container.runtime.\n";
  }
  return "# Container tools here: " + join(tools, ", ") + "\ncontainer: {runtime: " + runtime +
         "}\n";
}

bool is_narrower(const PartitionInfo& a, const PartitionInfo& b) {
  if (a.node.gpus != b.node.gpus) return a.node.gpus < b.node.gpus;
  return a.max_walltime.value_or(std::chrono::seconds::max()) <
         b.max_walltime.value_or(std::chrono::seconds::max());
}

std::string class_lines(const PartitionInfo& partition) {
  std::string slurm = "partition: " + yaml_text(partition.name);
  if (partition.gpu_types.size() == 1) {
    slurm += ", gres: " + yaml_text("gpu:" + partition.gpu_types[0] + ":{gpus}");
  }
  std::string text = "  " + yaml_text(partition.name) + ":\n    slurm: {" + slurm + "}\n";
  text += "    ranks_per_node: " + std::to_string(partition.node.gpus) + "\n";
  text += "    node: {cores: " + std::to_string(partition.node.cores) +
          ", memory: " + yaml_size(partition.node.memory_bytes) +
          ", gpus: " + std::to_string(partition.node.gpus) + "}\n    limits: {";
  text += "walltime: " + yaml_duration(partition.max_walltime.value_or(std::chrono::seconds(0)));
  return text + ", nodes: " + std::to_string(partition.max_nodes.value_or(partition.nodes)) + "}\n";
}

/// The classes of several partitions, unless the user chose one: the default, then the others by
/// increasing resources, so that no step takes a GPU node that it does not need.
std::string classes_text(const ClusterLimits& limits, const PartitionInfo& chosen,
                         const std::string& wanted) {
  std::vector<PartitionInfo> others;
  for (const PartitionInfo& partition : limits.partitions) {
    if (partition.is_up && partition.name != chosen.name) others.push_back(partition);
  }
  if (others.empty() || !wanted.empty()) return "";
  std::stable_sort(others.begin(), others.end(), is_narrower);
  std::string text =
      "# A step takes the first of these that fits what it asks for, or the one that it names "
      "with\n"
      "# `on:`. Remove those that you may not use; `local: true` is a class of the login node.\n"
      "classes:\n" +
      class_lines(chosen);
  for (const PartitionInfo& partition : others) text += class_lines(partition);
  return text;
}

/// Parses "PartitionName=batch Default=YES …" into key-value pairs.
std::map<std::string, std::string> pairs(const std::string& line) {
  std::map<std::string, std::string> values;
  for (const std::string& word : split(line, ' ')) {
    const size_t equals = word.find('=');
    if (equals != word.npos) values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return values;
}

/// Returns 8 for "gpu:a100:8(S:0-7),nvme:1" and adds the type to `types`.
int num_gpus(std::string_view gres, std::vector<std::string>& types) {
  int total = 0;
  for (const std::string& part : split(gres, ',')) {
    if (!part.starts_with("gpu")) continue;
    const std::vector<std::string> words = split(part.substr(0, part.find('(')), ':');
    if (words.size() > 2 && std::find(types.begin(), types.end(), words[1]) == types.end()) {
      types.push_back(words[1]);
    }
    total += words.size() > 1 ? leading_number<int>(words.back()) : 1;
  }
  return total;
}

}  // namespace

DetectedCluster detect_cluster(SlurmTools& tools, const std::string& path) {
  DetectedCluster cluster;
  cluster.limits = tools.cluster();
  if (cluster.limits.accounting) {
    cluster.accounts = tools.accounts();
    cluster.submit_limit = tools.submit_limit();
  }
  cluster.mpi_types = tools.mpi_types();
  std::vector<std::string> programs = {"mpirun", "srun"};
  for (const ContainerRuntime& runtime : runtimes()) programs.emplace_back(runtime.sign());
  for (const std::string& program : programs) {
    if (const auto place = find_program(program, path)) cluster.found[program] = place->string();
  }
  for (const ContainerRuntime& runtime : runtimes()) {
    if (!cluster.runtime.empty() || !cluster.found.contains(std::string(runtime.sign()))) continue;
    ContainerSettings settings;
    settings.runtime = runtime.name;
    if (container_problem(settings).empty()) cluster.runtime = runtime.name;
  }
  return cluster;
}

std::string detected_profile(const DetectedCluster& cluster, const std::string& wanted) {
  const ClusterLimits& limits = cluster.limits;
  const PartitionInfo& partition = chosen_partition(limits, wanted);
  std::string text = "# Cluster " + limits.cluster + ", SLURM " + limits.version +
                     ", as it described itself to `dlflow profile detect`.\n";
  text += "# What each key means: `dlflow profile show local`, cluster-profiles/local.yaml.\n#\n";
  text += "# Partitions:\n";
  for (const PartitionInfo& other : limits.partitions) text += "#   " + summary(other) + "\n";
  text += container_lines(cluster.found, cluster.runtime);
  text += "scheduler: slurm\nslurm:\n  partition: " + yaml_text(partition.name) + "\n";
  text += account_lines(cluster.accounts);
  if (partition.node.gpus > 0) {
    const bool one_type = partition.gpu_types.size() == 1;
    const std::string type = one_type ? partition.gpu_types[0] + ":" : "";
    text += "  gres: " + yaml_text("gpu:" + type + "{gpus}") + "\n";
  }
  text +=
      "# Ranks of a step that share a node: one per GPU, or one per socket. 0: SLURM decides.\n";
  text += "ranks_per_node: " + std::to_string(partition.node.gpus) + "\n";
  text += "node: {cores: " + std::to_string(partition.node.cores) +
          ", memory: " + yaml_size(partition.node.memory_bytes) +
          ", gpus: " + std::to_string(partition.node.gpus) + "}\n";
  text += limit_lines(limits, partition, cluster.submit_limit);
  text += classes_text(limits, partition, wanted);
  text += launcher_lines(cluster);
  text += "# Modules that every job needs: [module load openmpi].\nsetup: []\n";
  text += "paths:\n  # A folder that login and compute nodes share.\n  runs: dlflow-runs\n";
  if (!limits.accounting) {
    text += "# There is no accounting: only dlflow's own records show how old jobs ended.\n";
  }
  return text;
}

ClusterLimits parse_config(std::string_view scontrol_show_config) {
  ClusterLimits limits;
  for (const std::string& line : split(scontrol_show_config, '\n')) {
    const size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, equals));
    const std::string_view value = trim(std::string_view(line).substr(equals + 1));
    if (key == "ClusterName") limits.cluster = value;
    if (key == "SLURM_VERSION") limits.version = value;
    if (key == "MaxArraySize") limits.max_array_size = leading_number<int>(value);
    if (key == "MaxJobCount") limits.max_job_count = leading_number<int>(value);
    if (key == "AccountingStorageType") {
      limits.accounting = !value.empty() && value != "(null)" && !value.ends_with("none");
    }
  }
  return limits;
}

std::vector<PartitionInfo> parse_partitions(std::string_view scontrol_show_partition) {
  std::vector<PartitionInfo> partitions;
  for (const std::string& line : split(scontrol_show_partition, '\n')) {
    std::map<std::string, std::string> values = pairs(line);
    if (values["PartitionName"].empty()) continue;
    PartitionInfo partition;
    partition.name = values["PartitionName"];
    partition.is_default = values["Default"] == "YES";
    partition.is_up = values["State"].empty() || values["State"] == "UP";
    partition.max_walltime = whole_seconds(values["MaxTime"]);
    partition.default_walltime = whole_seconds(values["DefaultTime"]);
    const int max_nodes = leading_number<int>(values["MaxNodes"]);
    if (max_nodes > 0) partition.max_nodes = max_nodes;
    partition.nodes = leading_number<int>(values["TotalNodes"]);
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

void add_nodes(std::vector<PartitionInfo>& partitions, std::string_view sinfo) {
  for (const std::string& line : split(sinfo, '\n')) {
    const std::vector<std::string> fields = split(line, '|');
    if (fields.size() != 5) continue;
    for (PartitionInfo& partition : partitions) {
      if (partition.name != trim(fields[0])) continue;
      NodeShape& node = partition.node;
      node.cores = std::max(node.cores, leading_number<int>(trim(fields[2])));
      node.memory_bytes = std::max(node.memory_bytes,
                                   leading_number<uint32_t>(trim(fields[3])) * uint64_t{1 << 20});
      node.gpus = std::max(node.gpus, num_gpus(trim(fields[4]), partition.gpu_types));
    }
  }
}

}  // namespace dlflow
