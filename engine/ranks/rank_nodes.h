#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// Returns the value of an environment variable; empty if it is not set.
using ReadVariable = std::function<std::string(const char* name)>;

/// Expands a list of nodes in SLURM's notation: "n[1-2,08],m" -> n1 n2 n08 m.
std::vector<std::string> expand_node_list(std::string_view list);

/// Expands tasks per node in SLURM's notation: "2(x3),1" -> 2 2 2 1.
std::vector<int> expand_task_counts(std::string_view counts);

/// The nodes of a job in the order in which a launcher fills them with `ranks` ranks, from SLURM
/// (SLURM_JOB_NODELIST) or Grid Engine (PE_HOSTFILE); otherwise only this machine. Nodes without
/// ranks are left out.
std::vector<RankNode> rank_nodes(int ranks, int cpus_per_rank, const ReadVariable& variable);

/// Whether this process belongs to a job without running on one of its nodes, as in `salloc`.
bool is_outside_of_nodes();

/// Returns a TCP port of this machine on which nobody listens and which the kernel does not assign
/// by itself. Another process may take it before the caller does; different calls return different
/// ports with high probability. Throws Error{Unavailable} if none is found.
int free_port();

/// srun's options for one task on each node, with the cores and GPUs of all ranks there.
std::vector<std::string> srun_per_node(const RankPlan& plan, int cpus_per_rank, int gpus_per_rank);

}  // namespace dlflow
