#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "runtime/collectives/link.h"
#include "runtime/collectives/rules.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/topology.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Replaces `values`, elements from `first` on, by what passes for their sum over the ranks of
/// `link`: the same bits on each. Collective.
using SumByMessages = std::function<Task(Link link, size_t first, std::span<float> values)>;

struct AllreduceOptions {
  /// Of what is added. Training sums Float32 alone; dlflow-bench compares the others with the sums
  /// of MPI and Gloo. Halves of floats are added in fp32, rounded once where SharedMemory and
  /// Direct add all parts of an element, and after each addition by what sends partial sums.
  /// Integers wrap around.
  DataType type = DataType::Float32;

  /// The order of additions. If given, the bits of the sum are the same whatever way is taken. Left
  /// out: one part per rank, added in whatever order is fastest; runs with the same ranks agree.
  std::optional<SumOrder> order = std::nullopt;

  /// How Float32 travels between nodes, also Float16 or BFloat16: then what a rank or a node sends
  /// is rounded, added in fp32, and the sum is rounded once more. Not together with `order`. Other
  /// types travel as they are.
  DataType wire = DataType::Float32;

  /// Which algorithm for how many bytes; what is empty or cannot be done is chosen by topology.
  RuleSet rules{};

  /// Instead of every algorithm that sends messages; neither with `order` nor another type.
  SumByMessages by_messages = {};

  /// Of `by_messages`: ranks of a node add in shared memory first, and it sums over nodes alone.
  bool nodes_first = false;
};

/// Which algorithms these ranks may take without changing the bits that were asked for, and which
/// they take.
class AllreducePlan {
 public:
  AllreducePlan(const Communicator& comm, AllreduceOptions options);

  /// For a range of that many bytes, over all ranks.
  Algorithm over_all(size_t bytes) const;

  /// For a slice of that many bytes, over one rank of each node: what Hierarchical needs.
  Algorithm between_nodes(size_t bytes) const;

  void follow(RuleSet rules) { options_.rules = std::move(rules); }

  const Topology& topology() const { return topology_; }
  DataType type() const { return options_.type; }
  DataType wire() const { return narrows() ? options_.wire : options_.type; }
  const SumByMessages& by_messages() const { return options_.by_messages; }

  /// Over the parts of all ranks; of this node's; and of nodes, one part each. The latter two are
  /// what Hierarchical adds along.
  const SumOrder& order() const { return order_; }
  const SumOrder& order_on_node() const { return order_on_node_; }
  const SumOrder& order_of_nodes() const { return order_of_nodes_; }

 private:
  bool exact() const { return options_.order.has_value(); }
  bool narrows() const { return options_.wire != DataType::Float32; }
  bool may_sum(Algorithm algorithm) const;
  bool may_send(Algorithm algorithm, int num_ranks) const;

  AllreduceOptions options_;
  Topology topology_;
  bool library_sums_;  // Mpi is there
  SumOrder order_, order_on_node_, order_of_nodes_;
  bool along_tree_;          // order_ is the tree over all ranks, one part each, not rounded on it
  bool nodes_are_subtrees_;  // and that tree adds up each node by itself
  RuleSet otherwise_;        // by topology
};

}  // namespace dlflow::runtime
