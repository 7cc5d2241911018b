#include "engine/gridengine/cluster.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/batch/tool_runner.h"
#include "engine/gridengine/output.h"
#include "engine/model/profile_text.h"

namespace dlflow {
namespace {

using std::chrono::seconds;

int number(std::string_view text) { return std::max(0, leading_number<int>(text)); }

/// "24:00:00", "86400", "8:0:0,[node7=4:0:0]"; nothing for "INFINITY".
std::optional<seconds> walltime(std::string_view text) {
  int64_t total = 0;
  for (const std::string& part : split(text.substr(0, text.find(',')), ':')) {
    if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != part.npos) {
      return std::nullopt;
    }
    total = total * 60 + std::stoll(part);
  }
  return seconds(total);
}

void join_shape(NodeShape& node, const NodeShape& other) {
  node.cores = std::max(node.cores, other.cores);
  node.memory_bytes = std::max(node.memory_bytes, other.memory_bytes);
}

PartitionInfo& queue(ClusterLimits& limits, std::string_view name) {
  for (PartitionInfo& known : limits.partitions) {
    if (known.name == name) return known;
  }
  limits.partitions.emplace_back().name = name;
  return limits.partitions.back();
}

/// Calls `take` with key and value of lines like "max_aj_tasks           75000".
template <typename Take>
void for_each_setting(std::string_view text, const Take& take) {
  for (const std::string& line : split(text, '\n')) {
    const size_t space = line.find(' ');
    if (space == line.npos) continue;
    take(std::string_view(line).substr(0, space), trim(std::string_view(line).substr(space)));
  }
}

}  // namespace

void add_configuration(ClusterLimits& limits, std::string_view qconf_sconf) {
  for_each_setting(qconf_sconf, [&limits](std::string_view key, std::string_view value) {
    if (key == "max_aj_tasks") limits.max_array_size = number(value);
    if (key == "max_jobs") limits.max_job_count = number(value);
  });
}

void add_queues(ClusterLimits& limits, std::string_view qhost_xml) {
  queue(limits, "any").is_default = true;
  NodeShape host;
  for (const XmlTag& tag : read_tags(qhost_xml)) {
    const std::string_view name = attribute(tag, "name");
    if (tag.name == "host") host = {};
    if (tag.name == "hostvalue" && name == "num_proc") host.cores = number(tag.text);
    if (tag.name == "hostvalue" && name == "mem_total") host.memory_bytes = memory_from(tag.text);
    if (tag.name == "/host" && host.cores > 0) {
      join_shape(limits.partitions[0].node, host);
      ++limits.partitions[0].nodes;
    }
    if (tag.name != "queuevalue" || name != "slots") continue;
    const NodeShape part = {.cores = number(tag.text), .memory_bytes = host.memory_bytes};
    PartitionInfo& its_queue = queue(limits, attribute(tag, "qname"));
    join_shape(its_queue.node, part);
    ++its_queue.nodes;
    join_shape(limits.partitions[0].node, part);
  }
}

void add_walltimes(ClusterLimits& limits, std::string_view qconf_sq) {
  PartitionInfo* its_queue = nullptr;
  for_each_setting(qconf_sq, [&](std::string_view key, std::string_view value) {
    if (key == "qname") its_queue = &queue(limits, value);
    if (key == "h_rt" && its_queue != nullptr) its_queue->max_walltime = walltime(value);
  });
}

std::string gridengine_profile(const ClusterLimits& limits, const std::string& environments,
                               const std::string& wanted) {
  const PartitionInfo* const chosen = limits.partition(wanted);
  std::vector<std::string> names;
  for (const PartitionInfo& known : limits.partitions) {
    if (!known.is_default) names.push_back(known.name);
  }
  if (chosen == nullptr) {
    throw Error(Errc::NotFound, limits.cluster + " has no queue '" + wanted + "' among " +
                                    join(names, ", ") + did_you_mean(wanted, names));
  }
  const std::string first = environments.substr(0, environments.find('\n'));
  std::string text = "# Cluster " + limits.cluster + ", Grid Engine " + limits.version +
                     ", as it described itself to `dlflow profile detect`.\n";
  text += "# What each key means: `dlflow profile show local`, cluster-profiles/local.yaml.\n";
  text += "scheduler: gridengine\ngridengine:\n  # One of " + join(names, ", ") +
          "; \"\": Grid Engine chooses.\n";
  text += "  queue: " + yaml_text(chosen->is_default ? "" : chosen->name) + "\n";
  text += "  # One of " + join(split(trim(environments), '\n'), ", ") +
          "; ranks that it spreads over nodes need an mpirun that supports Grid Engine.\n";
  text += "  parallel_environment: " + yaml_text(first) + "\n";
  text +=
      "  # The resource that limits memory per slot; see the site's documentation: h_vmem, "
      "mem_free.\n";
  text += "  memory: \"\"\n  # How GPUs are asked for: \"gpu={gpus}\".\n  gpus: \"\"\n";
  text += "node: {cores: " + std::to_string(chosen->node.cores) +
          ", memory: " + yaml_size(chosen->node.memory_bytes) + ", gpus: 0}\n";
  text += "limits:\n";
  if (chosen->max_walltime) text += "  walltime: " + yaml_duration(*chosen->max_walltime) + "\n";
  text += "  array_size: " + std::to_string(limits.max_array_size) + "\n";
  text += "launcher:\n  program: mpirun\n  arguments: [--bind-to, none]\n";
  text += "# Modules that every job needs: [module load openmpi].\nsetup: []\n";
  return text + "paths:\n  # A folder that login and compute nodes share.\n  runs: dlflow-runs\n";
}

}  // namespace dlflow
