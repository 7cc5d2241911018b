#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/rank_nodes.h"
#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// The variables that give a command its rank, except for DLFLOW_*.
std::span<const std::string_view> rank_variable_names();

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and the others of docs/user/format/environment.md, for
/// the process whose environment `variable` reads. Variables that the step sets itself are left
/// out. The rank comes from the launcher: Open MPI, MPICH and Intel MPI, MVAPICH, srun, or PMIx.
/// Values that the launcher does not provide are left out.
/// \param host  the name of this machine, which gives the node's number if the launcher does not.
std::map<std::string, std::string> rank_variables(const RankPlan& plan,
                                                  const ReadVariable& variable,
                                                  const std::string& host);

/// SLURM's variables that would make Lightning, JAX and others take this program for a task of
/// srun, except for those that the step sets itself. They would start ranks of their own, or none,
/// and Lightning would requeue the job itself. A rank that srun has started keeps the variables:
/// they are correct there, and TORCHELASTIC_RUN_ID makes Lightning ignore them. SLURM_NPROCS always
/// stays, since a script's own srun reads it.
std::vector<std::string> misleading_variables(const RankPlan& plan, const ReadVariable& variable);

/// The same for this process.
std::vector<std::string> misleading_variables(const RankPlan& plan);
std::map<std::string, std::string> rank_variables(const RankPlan& plan);

}  // namespace dlflow
