#pragma once

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Which ranks share a node.
struct Topology {
  std::vector<std::vector<int>> nodes;  ///< the ranks of each, ascending

  int num_ranks() const;
  int smallest_node() const;  ///< its number of ranks
  int largest_node() const;

  /// "2x4": nodes and ranks per node; of the largest node if they differ.
  std::string text() const;
};

Topology topology_of(const Communicator& comm);

}  // namespace dlflow::runtime
