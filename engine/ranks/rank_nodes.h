#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// The value of an environment variable; empty if there is none.
using ReadVariable = std::function<std::string(const char* name)>;

/// "n[1-2,08],m" -> n1 n2 n08 m: a list of nodes as SLURM writes it.
std::vector<std::string> expand_node_list(std::string_view list);

/// "2(x3),1" -> 2 2 2 1: numbers of tasks per node as SLURM writes them.
std::vector<int> expand_task_counts(std::string_view counts);

/// The nodes of a job, in the order in which a launcher fills them with `ranks` ranks: of SLURM
/// (SLURM_JOB_NODELIST), of Grid Engine (PE_HOSTFILE), else this machine alone. A node without a
/// rank is left out.
std::vector<RankNode> rank_nodes(int ranks, int cpus_per_rank, const ReadVariable& variable);

}  // namespace dlflow
