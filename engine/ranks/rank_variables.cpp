#include "engine/ranks/rank_variables.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/mpi.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, 14> kNames = {
    "RANK",          "WORLD_SIZE",      "LOCAL_RANK",      "LOCAL_WORLD_SIZE",    "GROUP_RANK",
    "NODE_RANK",     "MASTER_ADDR",     "MASTER_PORT",     "TORCHELASTIC_RUN_ID", "PET_NNODES",
    "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE"};

std::optional<int> number(const ReadVariable& variable, const char* name) {
  const auto value = number_from<int>(variable(name));
  return value && *value >= 0 ? value : std::nullopt;
}

/// The position of a program among all that the launcher has started.
struct RankPosition {
  int rank = 0;
  std::optional<int> local_rank;
  std::optional<int> local_ranks;  ///< on its node
  std::optional<int> node;
  std::optional<int> nodes;
};

std::optional<RankPosition> position_by_mpi(const RankPlan& plan, const ReadVariable& variable) {
  for (const MpiLauncher& names : kMpiLaunchers) {
    const auto rank = number(variable, names.rank);
    const auto local_rank = number(variable, names.local_rank);
    if (!rank || !local_rank || number(variable, names.size) != plan.num_programs()) continue;
    return RankPosition{*rank, local_rank, number(variable, names.local_size), {}, {}};
  }
  return std::nullopt;
}

std::optional<RankPosition> position_by_srun(const RankPlan& plan, const ReadVariable& variable) {
  const auto rank = number(variable, kSrun.rank);
  if (!rank || number(variable, kSrun.size) != plan.num_programs()) return std::nullopt;
  RankPosition position{*rank,
                        number(variable, kSrun.local_rank),
                        {},
                        number(variable, "SLURM_NODEID"),
                        number(variable, "SLURM_STEP_NUM_NODES")};
  const std::vector<int> counts = expand_task_counts(variable("SLURM_STEP_TASKS_PER_NODE"));
  if (position.node && size_t(*position.node) < counts.size()) {
    position.local_ranks = counts[size_t(*position.node)];
  }
  return position;
}

std::optional<RankPosition> position_by_rank_alone(const ReadVariable& variable) {
  for (const char* name : {"PMIX_RANK", "PMI_RANK"}) {
    if (const auto rank = number(variable, name)) return RankPosition{*rank, {}, {}, {}, {}};
  }
  return std::nullopt;
}

bool is_same_host(std::string_view a, std::string_view b) {
  return a.substr(0, a.find('.')) == b.substr(0, b.find('.'));
}

std::optional<int> node_number(const RankPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.nodes.begin(), plan.nodes.end(), [&](const RankNode& node) {
    return is_same_host(node.name, name);
  });
  if (found == plan.nodes.end()) return std::nullopt;
  return int(found - plan.nodes.begin());
}

std::optional<RankPosition> position_of(const RankPlan& plan, const ReadVariable& variable,
                                        const std::string& host) {
  if (plan.num_programs() == 1) return RankPosition{0, 0, 1, 0, 1};
  auto position = position_by_mpi(plan, variable);
  if (!position) position = position_by_srun(plan, variable);
  if (!position) position = position_by_rank_alone(variable);
  if (!position) return std::nullopt;
  if (plan.nodes.size() == 1 && !position->node) {
    position->node = 0;
    if (!position->local_rank) position->local_rank = position->rank;
    if (!position->local_ranks) position->local_ranks = plan.ranks;
  }
  if (plan.one_per_node) position->node = position->rank;
  const std::string node_name = variable("SLURMD_NODENAME");
  if (!position->node) position->node = node_number(plan, node_name.empty() ? host : node_name);
  if (!position->nodes) position->nodes = int(plan.nodes.size());
  return position;
}

}  // namespace

std::span<const std::string_view> rank_variable_names() { return kNames; }

std::map<std::string, std::string> rank_variables(const RankPlan& plan,
                                                  const ReadVariable& variable,
                                                  const std::string& host) {
  std::map<std::string, std::string> values;
  const auto is_told = [&](std::string_view name) {
    return !plan.given.contains(std::string(name)) && (plan.told || name.starts_with("DLFLOW_"));
  };
  const auto set = [&](const char* name, const std::optional<int>& value) {
    if (value && is_told(name)) values[name] = std::to_string(*value);
  };
  const auto set_text = [&](const char* name, const std::string& value) {
    if (is_told(name)) values[name] = value;
  };
  const auto given_or = [&](const char* name, const std::string& value) {
    return plan.given.contains(name) ? variable(name) : value;
  };
  const std::string address = given_or("MASTER_ADDR", plan.master_address);
  const std::string port = given_or("MASTER_PORT", std::to_string(plan.master_port));
  set_text("MASTER_ADDR", address);
  set_text("MASTER_PORT", port);
  const auto position = position_of(plan, variable, host);
  if (!position) return values;
  set("NODE_RANK", position->node);
  set("DLFLOW_NODE_RANK", position->node);
  set("DLFLOW_NODES", position->nodes);
  if (plan.one_per_node) {
    const bool is_known = size_t(position->rank) < plan.nodes.size();
    const int ranks = is_known ? plan.nodes[size_t(position->rank)].ranks : 1;
    set("DLFLOW_LOCAL_RANKS", ranks);
    set("PET_NNODES", position->nodes);
    set("PET_NODE_RANK", position->node);
    set("PET_NPROC_PER_NODE", ranks);
    set_text("PET_MASTER_ADDR", address);
    set_text("PET_MASTER_PORT", port);
    return values;
  }
  set("RANK", position->rank);
  set("DLFLOW_RANK", position->rank);
  set("WORLD_SIZE", plan.ranks);
  set("LOCAL_RANK", position->local_rank);
  set("DLFLOW_LOCAL_RANK", position->local_rank);
  set("LOCAL_WORLD_SIZE", position->local_ranks);
  set("DLFLOW_LOCAL_RANKS", position->local_ranks);
  set("GROUP_RANK", position->node);
  // If it is set, Lightning starts no ranks itself, also in SLURM jobs. The value is
  // torchrun's for a run without a name.
  set_text("TORCHELASTIC_RUN_ID", "none");
  return values;
}

std::map<std::string, std::string> rank_variables(const RankPlan& plan) {
  return rank_variables(plan, environment_variable, host_name());
}

std::vector<std::string> misleading_variables(const RankPlan& plan, const ReadVariable& variable) {
  std::vector<std::string> names = {"SLURM_NTASKS"};
  if (!plan.one_per_node) {  // a program per node may read its number there
    const bool has_tasks = plan.num_programs() > 1 && !position_by_mpi(plan, variable) &&
                           position_by_srun(plan, variable);
    if (has_tasks) return {};
    names.insert(names.end(), {kSrun.rank, kSrun.local_rank});
  }
  std::erase_if(names, [&](const std::string& name) { return plan.given.contains(name); });
  return names;
}

std::vector<std::string> misleading_variables(const RankPlan& plan) {
  return misleading_variables(plan, environment_variable);
}

}  // namespace dlflow
