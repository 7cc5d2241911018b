#pragma once

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// The assignment of ranks to nodes.
struct Topology {
  std::vector<std::vector<int>> nodes;  ///< the ranks of each node, ascending

  int num_ranks() const;
  int smallest_node() const;  ///< The number of ranks of the smallest node.
  int largest_node() const;

  /// "2x4" for nodes and ranks per node; the largest node counts if they differ.
  std::string text() const;
};

Topology topology_of(const Communicator& comm);

}  // namespace dlflow::runtime
