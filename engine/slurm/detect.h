#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/batch/batch_system.h"
#include "engine/slurm/tools.h"

/// `dlflow profile detect`: makes a profile from a cluster's description of itself.
namespace dlflow {

struct DetectedCluster {
  ClusterLimits limits;
  std::vector<std::string> accounts;         ///< for this user's jobs
  std::vector<std::string> mpi_types;        ///< from `srun --mpi=list`
  std::map<std::string, std::string> found;  ///< program -> its path: mpirun, apptainer, …
  std::string runtime;   ///< the first container runtime that works there; may be empty
  int submit_limit = 0;  ///< jobs at a time, from accounting; 0: unknown
};

/// Queries SLURM, and looks for launchers and container tools in `path` (like $PATH).
DetectedCluster detect_cluster(SlurmTools& tools, const std::string& path);

/// The text of a profile for jobs in `partition` (empty: the default one), with comments on what a
/// person has to decide. Throws Error{NotFound} with the partitions if `partition` does not exist.
std::string detected_profile(const DetectedCluster& cluster, const std::string& partition);

// Parsers of `scontrol show config`, `scontrol -o show partition` and `sinfo`. None fails: missing
// values are 0, empty or absent.

/// The columns that add_nodes reads, for `sinfo --noheader -o`.
inline constexpr const char* kSinfoFormat = "%R|%D|%c|%m|%G";

ClusterLimits parse_config(std::string_view scontrol_show_config);
std::vector<PartitionInfo> parse_partitions(std::string_view scontrol_show_partition);
void add_nodes(std::vector<PartitionInfo>& partitions, std::string_view sinfo);

}  // namespace dlflow
