#pragma once

#include <string_view>
#include <vector>

#include "engine/batch/cluster.h"

/// A cluster as it describes itself: `scontrol show config`, `scontrol -o show partition`, `sinfo`.
/// Nothing here fails: what is not found is 0, empty or absent.
namespace dlflow {

/// The columns that add_nodes reads, for `sinfo --noheader -o`.
inline constexpr const char* kSinfoFormat = "%R|%D|%c|%m|%G";

ClusterLimits parse_config(std::string_view scontrol_show_config);
std::vector<PartitionInfo> parse_partitions(std::string_view scontrol_show_partition);
void add_nodes(std::vector<PartitionInfo>& partitions, std::string_view sinfo);

}  // namespace dlflow
