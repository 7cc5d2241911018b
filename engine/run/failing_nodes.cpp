#include "engine/run/failing_nodes.h"

#include <utility>

namespace dlflow {

std::vector<FailingNode> failing_nodes(Store& store) {
  std::vector<FailingNode> nodes;
  for (NodeFailure& failure : store.node_failures()) {
    const bool is_new = nodes.empty() || nodes.back().cluster != failure.cluster ||
                        nodes.back().node != failure.node;
    if (is_new) nodes.push_back({failure.cluster, failure.node, 0, {}});
    ++nodes.back().failures;
    nodes.back().last = std::move(failure);
  }
  return nodes;
}

std::vector<std::string> nodes_to_exclude(Store& store, const std::string& cluster, int times) {
  std::vector<std::string> nodes;
  if (times == 0) return nodes;
  for (const FailingNode& node : failing_nodes(store)) {
    if (node.cluster == cluster && node.failures >= times) nodes.push_back(node.node);
  }
  return nodes;
}

}  // namespace dlflow
