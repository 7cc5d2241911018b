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

/// Replaces `values`, elements from `first` on, by their (possibly approximate) sum over the ranks
/// of `link`, with the same bits on each. Collective.
using SumByMessages = std::function<Task(Link link, size_t first, std::span<float> values)>;

struct AllreduceOptions {
  /// The type of the summands. Training sums Float32 only; dlflow-bench compares the others with
  /// the sums of MPI and Gloo. Half-precision numbers are added in fp32; SharedMemory and Direct,
  /// which add all parts of an element at once, round once, and algorithms that send partial sums
  /// round after each addition. Integers wrap around.
  DataType type = DataType::Float32;

  /// The order of additions. If given, all algorithms produce the same bits. If left out, there is
  /// one part per rank, added in whatever order is fastest; runs with the same ranks agree.
  std::optional<SumOrder> order = std::nullopt;

  /// The type in which Float32 travels between nodes, optionally Float16 or BFloat16: then the data
  /// that a rank or node sends is rounded, added in fp32, and the sum is rounded once more. Cannot
  /// be combined with `order`. Other types travel as they are.
  DataType wire = DataType::Float32;

  /// The algorithm by number of bytes; empty or impossible rules are replaced by topology's choice.
  RuleSet rules{};

  /// Replaces every algorithm that sends messages; requires Float32 and no `order`.
  SumByMessages by_messages = {};

  /// With `by_messages`: ranks of a node add in shared memory first, and it sums over nodes only.
  bool nodes_first = false;
};

/// Decides which algorithms these ranks may use without changing the requested bits, and which they
/// do use.
class AllreducePlan {
 public:
  AllreducePlan(const Communicator& comm, AllreduceOptions options);

  /// The algorithm for a range of that many bytes, over all ranks.
  Algorithm over_all(size_t bytes) const;

  /// Hierarchical's algorithm for a slice of that many bytes, over one rank of each node.
  Algorithm between_nodes(size_t bytes) const;

  void follow(RuleSet rules) { options_.rules = std::move(rules); }

  const Topology& topology() const { return topology_; }
  DataType type() const { return options_.type; }
  DataType wire() const { return narrows() ? options_.wire : options_.type; }
  const SumByMessages& by_messages() const { return options_.by_messages; }

  /// The orders over the parts of all ranks, over those of this node, and over nodes with one part
  /// each. Hierarchical uses the latter two.
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
  bool library_sums_;  // Mpi is available
  SumOrder order_, order_on_node_, order_of_nodes_;
  bool along_tree_;  // order_ is the tree over all ranks, with one part each and no rounding
  bool nodes_are_subtrees_;  // and in that tree each node is a subtree
  RuleSet otherwise_;        // chosen by topology
};

}  // namespace dlflow::runtime
