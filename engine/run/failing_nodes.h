#pragma once

#include <string>
#include <vector>

#include "engine/store/store.h"

/// Nodes that jobs were lost with, and that later ones had better not run on.
namespace dlflow {

struct FailingNode {
  std::string cluster;
  std::string node;
  int failures = 0;
  NodeFailure last;
};

/// By cluster and node; those that were forgiven are left out.
std::vector<FailingNode> failing_nodes(Store& store);

/// Those of `cluster` that failed at least `times`; none for 0.
std::vector<std::string> nodes_to_exclude(Store& store, const std::string& cluster, int times);

}  // namespace dlflow
