#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/rank_nodes.h"
#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// The names of the variables that tell a command of its rank, but for DLFLOW_*.
std::span<const std::string_view> rank_variable_names();

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and the others of docs/user/format/environment.md for the
/// process whose environment `variable` reads, without those that the step sets itself. The rank is
/// what the launcher has told the process: Open MPI, MPICH and Intel MPI, MVAPICH, srun, or PMIx.
/// What it has not told is left out.
/// \param host  the name of this machine, which says the number of its node where no launcher does.
std::map<std::string, std::string> rank_variables(const RankPlan& plan,
                                                  const ReadVariable& variable,
                                                  const std::string& host);

/// SLURM's variables by which Lightning, JAX and others would take this program for a task of srun
/// that it is not, without those that the step sets itself. They would start ranks of their own, or
/// none, and Lightning would requeue the job itself. A rank that srun has started keeps them: there
/// they are right, and TORCHELASTIC_RUN_ID keeps Lightning from them. SLURM_NPROCS stays in any
/// case: a script's own srun reads it.
std::vector<std::string> misleading_variables(const RankPlan& plan, const ReadVariable& variable);

/// The same of this process.
std::vector<std::string> misleading_variables(const RankPlan& plan);
std::map<std::string, std::string> rank_variables(const RankPlan& plan);

}  // namespace dlflow
