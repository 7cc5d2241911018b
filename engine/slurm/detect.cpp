#include "engine/slurm/detect.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/container/runtime.h"
#include "engine/model/profile_text.h"

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
  if (accounts.empty()) return "  # Your project, if the site wants one.\n  account: \"\"\n";
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
  text += submit_limit > 0
              ? "  # How many jobs a user may have at a time, as the association and its QOS say.\n"
              : "  # How many jobs a user may have at a time; the site's documentation says it.\n";
  return text + "  jobs: " + std::to_string(submit_limit) + "\n";
}

std::string container_lines(const std::map<std::string, std::string>& found) {
  std::vector<std::string> tools;
  std::string runtime;
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

/// Where there are several partitions and none was asked for: the chosen one first, then those
/// that offer least, so that no step takes a GPU node that it does not need.
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
      "# `on:`. Take out those that you may not use; `local: true` is a class of the login node.\n"
      "classes:\n" +
      class_lines(chosen);
  for (const PartitionInfo& partition : others) text += class_lines(partition);
  return text;
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
  text += container_lines(cluster.found);
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
    text += "# There is no accounting: how old jobs ended is known from their own records alone.\n";
  }
  return text;
}

}  // namespace dlflow
