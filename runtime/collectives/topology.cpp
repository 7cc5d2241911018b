#include "runtime/collectives/topology.h"

#include <algorithm>

namespace dlflow::runtime {
namespace {

bool fewer_ranks(const std::vector<int>& a, const std::vector<int>& b) {
  return a.size() < b.size();
}

}  // namespace

int Topology::num_ranks() const {
  size_t ranks = 0;
  for (const auto& node : nodes) ranks += node.size();
  return int(ranks);
}

int Topology::smallest_node() const {
  return int(std::ranges::min_element(nodes, fewer_ranks)->size());
}

int Topology::largest_node() const {
  return int(std::ranges::max_element(nodes, fewer_ranks)->size());
}

std::string Topology::text() const {
  return std::to_string(nodes.size()) + "x" + std::to_string(largest_node());
}

Topology topology_of(const Communicator& comm) {
  Topology topology;
  const std::span<const int> nodes = comm.nodes();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const size_t node = size_t(nodes[size_t(rank)]);
    if (node >= topology.nodes.size()) topology.nodes.resize(node + 1);
    topology.nodes[node].push_back(rank);
  }
  return topology;
}

}  // namespace dlflow::runtime
