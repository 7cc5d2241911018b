#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/ranks/rank_nodes.h"
#include "engine/ranks/rank_plan.h"

namespace dlflow {

/// The names of the variables that tell a command of its rank, but for DLFLOW_*.
std::span<const std::string_view> rank_variable_names();

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and the others of docs/user/workflow-format.md for the
/// process whose environment `variable` reads, without those that the step sets itself. The rank is
/// what the launcher has told the process: Open MPI, MPICH and Intel MPI, MVAPICH, srun, or PMIx.
/// What it has not told is left out.
/// \param host  the name of this machine, which says the number of its node where no launcher does.
std::map<std::string, std::string> rank_variables(const RankPlan& plan,
                                                  const ReadVariable& variable,
                                                  const std::string& host);

/// The same of this process.
std::map<std::string, std::string> rank_variables(const RankPlan& plan);

}  // namespace dlflow
