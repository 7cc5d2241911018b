#include <algorithm>
#include <map>

#include "tests/support/fake_slurm/schedule.h"

// Which nodes a job gets. Plain first fit: SLURM has better ways, but what fits, fits.
namespace dlflow::fake_slurm {
namespace {

std::vector<Node> free_nodes(const World& world) {
  std::map<std::string, Share> taken;
  for (const Job& job : world.jobs) {
    for (const Task& task : job.tasks) {
      if (task.state == State::Pending || is_over(world, task)) continue;
      for (const Share& share : task.shares) {
        Share& sum = taken[share.node];
        sum.cpus += share.cpus;
        sum.memory_mb += share.memory_mb;
        sum.gpus += share.gpus;
      }
    }
  }
  std::vector<Node> nodes = world.config.nodes;
  for (Node& node : nodes) {
    const Share& share = taken[node.name];
    node.cpus -= share.cpus;
    node.memory_mb -= share.memory_mb;
    node.gpus -= share.gpus;
  }
  return nodes;
}

/// How many tasks of `request` a node with these free resources can hold, `most` at most.
int room(const Request& request, const Node& free, int most) {
  int tasks = std::min(most, free.cpus / request.cpus_per_task);
  if (request.tasks_per_node > 0) tasks = std::min(tasks, request.tasks_per_node);
  if (request.memory_mb > free.memory_mb) return 0;
  if (request.memory_per_cpu_mb > 0) {
    const int64_t per_task = request.memory_per_cpu_mb * request.cpus_per_task;
    tasks = int(std::min<int64_t>(tasks, free.memory_mb / per_task));
  }
  if (request.gpus_per_node > free.gpus) return 0;
  if (request.gpus_per_task > 0) tasks = std::min(tasks, free.gpus / request.gpus_per_task);
  return std::max(tasks, 0);
}

Share share_of(const Request& request, const Node& free, const Node& whole, int tasks) {
  Share share{whole.name, tasks * request.cpus_per_task, tasks, request.memory_mb,
              request.gpus_per_node + tasks * request.gpus_per_task};
  share.memory_mb += int64_t{share.cpus} * request.memory_per_cpu_mb;
  if (request.exclusive) share.cpus = free.cpus;
  return share;
}

/// Gives the nodes' free GPUs to a job that asks for a number of them in all.
bool add_gpus(const Request& request, const std::vector<Node>& free, std::vector<Share>& shares) {
  int missing = request.gpus;
  for (Share& share : shares) {
    const auto node =
        std::find_if(free.begin(), free.end(), [&](const Node& n) { return n.name == share.node; });
    const int more = std::min(missing, node->gpus - share.gpus);
    share.gpus += more;
    missing -= more;
  }
  return missing == 0;
}

/// On `num_nodes` nodes, each with a task at least; empty if they do not fit.
std::vector<Share> place_on(const World& world, const Request& request,
                            const std::vector<Node>& free, int num_nodes) {
  std::vector<Share> shares;
  int tasks = std::max(request.tasks, num_nodes);
  for (size_t i = 0; i < free.size() && int(shares.size()) < num_nodes; ++i) {
    const Node& whole = world.config.nodes[i];
    if (request.exclusive && free[i].cpus < whole.cpus) continue;
    const int others = num_nodes - int(shares.size()) - 1;  // each of them needs one, too
    const int here = room(request, free[i], tasks - others);
    if (here == 0) continue;
    shares.push_back(share_of(request, free[i], whole, here));
    tasks -= here;
  }
  const bool complete = tasks == 0 && int(shares.size()) == num_nodes;
  return complete && add_gpus(request, free, shares) ? shares : std::vector<Share>();
}

}  // namespace

std::vector<Share> place(const World& world, const Request& request, bool empty_cluster) {
  const std::vector<Node> free = empty_cluster ? world.config.nodes : free_nodes(world);
  if (request.nodes > 0) return place_on(world, request, free, request.nodes);
  for (int num_nodes = 1; num_nodes <= int(free.size()); ++num_nodes) {
    auto shares = place_on(world, request, free, num_nodes);
    if (!shares.empty()) return shares;
  }
  return {};
}

}  // namespace dlflow::fake_slurm
