#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/profile.h"

/// What a cluster says of itself: `scontrol show config`, `scontrol -o show partition`, `sinfo`.
/// Nothing here fails: what is not found is 0, empty or absent.
namespace dlflow {

/// Of one partition; absent: no limit.
struct PartitionInfo {
  std::string name;
  bool is_default = false;
  bool is_up = true;
  std::optional<std::chrono::seconds> max_walltime;
  std::optional<std::chrono::seconds> default_walltime;
  std::optional<int> max_nodes;  ///< of one job
  int nodes = 0;
  NodeShape node;  ///< the largest of each: a job that needs more fits no node
  std::vector<std::string> gpu_types;

  bool operator==(const PartitionInfo&) const = default;
};

struct ClusterLimits {
  std::string cluster;
  std::string version;      ///< "22.05.8"
  int max_array_size = 0;   ///< the highest task number plus one
  int max_job_count = 0;    ///< of all users together
  bool accounting = false;  ///< sacct has something to tell
  std::vector<PartitionInfo> partitions;

  /// The one with that name; the default one for an empty name. Null if there is none.
  const PartitionInfo* partition(std::string_view name) const;
};

/// The columns that add_nodes reads, for `sinfo --noheader -o`.
inline constexpr const char* kSinfoFormat = "%R|%D|%c|%m|%G";

ClusterLimits parse_config(std::string_view scontrol_show_config);
std::vector<PartitionInfo> parse_partitions(std::string_view scontrol_show_partition);
void add_nodes(std::vector<PartitionInfo>& partitions, std::string_view sinfo);

}  // namespace dlflow
