#include "runtime/collectives/allreduce_plan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace dlflow::runtime {
namespace {

bool is_power_of_two(int number) { return std::has_single_bit(unsigned(number)); }

SumOrder tree_over(int num_parts) { return sum_in_leaf_order(size_t(num_parts), num_parts); }

/// Whether the tree over all ranks first adds up the ranks of each node, and then the nodes.
bool are_subtrees(const Topology& topology) {
  const int ranks = topology.largest_node();
  if (!is_power_of_two(ranks) || topology.smallest_node() != ranks) return false;
  return std::ranges::all_of(topology.nodes, [&](const std::vector<int>& node) {
    return node.front() % ranks == 0 && node.back() - node.front() == ranks - 1;
  });
}

/// Below this size, the number of messages decides the time; above, the number of bytes.
constexpr size_t kLatencyBytes = 32 << 10;

Rules rules_between(int num_ranks) {
  // With two ranks, each must send all it has anyway; one round suffices.
  if (num_ranks <= 2) return {{Algorithm::RecursiveDoubling, 0, SIZE_MAX}};
  const Algorithm large = is_power_of_two(num_ranks) ? Algorithm::Rabenseifner : Algorithm::Ring;
  return {{Algorithm::RecursiveDoubling, 0, kLatencyBytes}, {large, kLatencyBytes, SIZE_MAX}};
}

RuleSet rules_for(const Topology& topology) {
  const int nodes = int(topology.nodes.size());
  if (nodes == 1) return {{{Algorithm::SharedMemory, 0, SIZE_MAX}}, rules_between(1)};
  if (topology.largest_node() == 1) return {rules_between(nodes), rules_between(nodes)};
  return {{{Algorithm::Hierarchical, 0, SIZE_MAX}}, rules_between(nodes)};
}

}  // namespace

AllreducePlan::AllreducePlan(const Communicator& comm, AllreduceOptions options)
    : options_(std::move(options)),
      topology_(topology_of(comm)),
      library_sums_(comm.can_sum(options_.type)),
      otherwise_(rules_for(topology_)) {
  DLFLOW_CHECK(!narrows() || (!exact() && options_.type == DataType::Float32));
  DLFLOW_CHECK(!options_.by_messages ||
               (!exact() && !narrows() && options_.type == DataType::Float32));
  const int nodes = int(topology_.nodes.size());
  if (nodes == 1) options_.wire = DataType::Float32;  // nothing leaves the node
  order_ = exact() ? *options_.order : sum_in_rank_order(comm.size());
  order_on_node_ = exact() ? tree_over(comm.node_size()) : sum_in_rank_order(comm.node_size());
  along_tree_ = order_ == tree_over(comm.size()) && !is_half(options_.type);
  nodes_are_subtrees_ = along_tree_ && are_subtrees(topology_);
  order_of_nodes_ = exact() ? tree_over(nodes) : sum_in_rank_order(nodes);
}

Algorithm AllreducePlan::over_all(size_t bytes) const {
  if (options_.by_messages) {
    const bool in_two_levels = options_.nodes_first && topology_.largest_node() > 1;
    return in_two_levels ? Algorithm::Hierarchical : Algorithm::Direct;
  }
  for (const Rules* rules : {&options_.rules.allreduce, &otherwise_.allreduce}) {
    if (rules->empty()) continue;
    const Algorithm algorithm = choose(*rules, bytes);
    if (may_sum(algorithm)) return algorithm;
  }
  return Algorithm::Direct;
}

Algorithm AllreducePlan::between_nodes(size_t bytes) const {
  for (const Rules* rules : {&options_.rules.between_nodes, &otherwise_.between_nodes}) {
    if (rules->empty()) continue;
    const Algorithm algorithm = choose(*rules, bytes);
    if (may_send(algorithm, int(topology_.nodes.size()))) return algorithm;
  }
  return Algorithm::Direct;
}

bool AllreducePlan::may_sum(Algorithm algorithm) const {
  const bool one_node = topology_.nodes.size() == 1;
  if (algorithm == Algorithm::SharedMemory) return one_node;
  if (algorithm == Algorithm::Hierarchical) {
    return !one_node && topology_.largest_node() > 1 && (!exact() || nodes_are_subtrees_);
  }
  if (algorithm == Algorithm::Mpi) return library_sums_ && !exact() && !narrows();
  if (algorithm == Algorithm::Direct) return true;
  return may_send(algorithm, topology_.num_ranks()) && (!exact() || along_tree_);
}

/// Assumes one part per rank, which exact mode adds along the ranks' tree.
bool AllreducePlan::may_send(Algorithm algorithm, int num_ranks) const {
  if (algorithm == Algorithm::Direct) return true;
  if (narrows()) return false;
  if (algorithm == Algorithm::RecursiveDoubling || algorithm == Algorithm::Rabenseifner) {
    return !exact() || is_power_of_two(num_ranks);
  }
  return algorithm == Algorithm::Tree || (algorithm == Algorithm::Ring && !exact());
}

}  // namespace dlflow::runtime
