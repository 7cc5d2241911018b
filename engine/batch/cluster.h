#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/profile.h"

/// A cluster as it describes itself. A value that is not known is 0, empty or absent.
namespace dlflow {

/// Limits of one partition (Grid Engine: queue); absent: no limit.
struct PartitionInfo {
  std::string name;
  bool is_default = false;
  bool is_up = true;
  std::optional<std::chrono::seconds> max_walltime;
  std::optional<std::chrono::seconds> default_walltime;
  std::optional<int> max_nodes;  ///< of one job
  int nodes = 0;
  NodeShape node;  ///< the largest of each: a job that needs more does not fit on any node
  std::vector<std::string> gpu_types;

  bool operator==(const PartitionInfo&) const = default;
};

struct ClusterLimits {
  std::string cluster;
  std::string version;      ///< "22.05.8"
  int max_array_size = 0;   ///< the highest task number plus one
  int max_job_count = 0;    ///< of all users together
  bool accounting = false;  ///< it can report the ends of old jobs
  std::vector<PartitionInfo> partitions;

  /// The partition with that name; for an empty name the default one. Null if there is none.
  const PartitionInfo* partition(std::string_view name) const {
    for (const PartitionInfo& each : partitions) {
      if (name.empty() ? each.is_default : each.name == name) return &each;
    }
    return nullptr;
  }
};

}  // namespace dlflow
