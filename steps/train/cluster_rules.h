#pragma once

#include <filesystem>

#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"

/// The best all-reduce for each size on this cluster, as measured by `dlflow-train --tune`.
namespace dlflow::steps {

/// $DLFLOW_COLLECTIVES, else collectives.txt in $DLFLOW_CACHE, which all jobs of a cluster share;
/// empty if neither is set.
std::filesystem::path cluster_rules_path();

/// The rules of that file for this topology; empty if there are none, and the topology then
/// decides. Rank 0 reads. Collective. Throws Error{InvalidInput} on every rank if a line is wrong.
runtime::RuleSet cluster_rules(runtime::Communicator& comm);

/// Measures all algorithms on these ranks up to `largest_bytes`, prints the times, and writes this
/// topology's line to that file. Collective; returns an exit status.
int tune_cluster(runtime::Communicator& comm, size_t largest_bytes);

}  // namespace dlflow::steps
