#pragma once

#include <string>
#include <vector>

#include "engine/store/store.h"

/// Nodes on which jobs were lost, so that later jobs should avoid them.
namespace dlflow {

struct FailingNode {
  std::string cluster;
  std::string node;
  int failures = 0;
  NodeFailure last;
};

/// The failing nodes by cluster and name, without those that were forgiven.
std::vector<FailingNode> failing_nodes(Store& store);

/// The nodes of `cluster` that failed at least `times`; none if that is 0.
std::vector<std::string> nodes_to_exclude(Store& store, const std::string& cluster, int times);

}  // namespace dlflow
