#include "engine/slurm/cluster.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text.h"
#include "engine/slurm/output.h"

namespace dlflow {
namespace {

/// The number that `text` begins with: "4+" of sinfo is 4, "none" is 0.
template <typename Number>
Number leading_number(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<std::chrono::seconds> limit_from(const std::string& text) {
  const auto duration = parse_slurm_duration(text);
  if (!duration) return std::nullopt;
  return std::chrono::floor<std::chrono::seconds>(*duration);
}

/// "PartitionName=batch Default=YES …" -> its values.
std::map<std::string, std::string> pairs(const std::string& line) {
  std::map<std::string, std::string> values;
  for (const std::string& word : split(line, ' ')) {
    const size_t equals = word.find('=');
    if (equals != word.npos) values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return values;
}

/// "gpu:a100:8(S:0-7),nvme:1" -> 8; the type goes to `types`.
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
    partition.max_walltime = limit_from(values["MaxTime"]);
    partition.default_walltime = limit_from(values["DefaultTime"]);
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
