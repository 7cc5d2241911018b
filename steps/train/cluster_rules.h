#pragma once

#include <filesystem>

#include "runtime/collectives/rules.h"
#include "runtime/comm/communicator.h"

/// Which all-reduce for how many bytes, on this cluster: what `dlflow-train --tune` measured.
namespace dlflow::steps {

/// $DLFLOW_COLLECTIVES, else collectives.txt in $DLFLOW_CACHE, which all jobs of a cluster share;
/// empty without either.
std::filesystem::path cluster_rules_path();

/// The rules of that file for ranks of this shape, empty if there are none: then the topology
/// decides. Rank 0 reads. Collective. Throws Error{InvalidInput} on every rank if a line is wrong.
runtime::RuleSet cluster_rules(runtime::Communicator& comm);

/// Measures all ways on these ranks up to `largest_bytes`, prints them, and writes their line of
/// that file. Collective; returns an exit status.
int tune_cluster(runtime::Communicator& comm, size_t largest_bytes);

}  // namespace dlflow::steps
