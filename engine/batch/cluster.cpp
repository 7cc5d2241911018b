#include "engine/batch/cluster.h"

#include <algorithm>

namespace dlflow {

const PartitionInfo* ClusterLimits::partition(std::string_view name) const {
  const auto found =
      std::find_if(partitions.begin(), partitions.end(), [name](const PartitionInfo& partition) {
        return name.empty() ? partition.is_default : partition.name == name;
      });
  return found == partitions.end() ? nullptr : &*found;
}

}  // namespace dlflow
