#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/collectives/node_memory.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Sums over the ranks of one node of numbers that lie in memory of each rank's own, where
/// Allreduce sums what lies in memory that they share. Each rank adds up its share of a piece. It
/// reads its own numbers of that where they are, and puts only what the others add, and what it has
/// added, into the shared memory: of N bytes on each of P ranks, N (P-1)/P are copied in and as
/// many out.
class NodeSum {
 public:
  /// Collective over `comm`, whose ranks are all on one node. It must outlive this.
  NodeSum(Communicator& comm, DataType type);

  /// Collective: `output` becomes the sum of `input` over the ranks, added in their order, divided
  /// by `divisor` if that is not 1, the same bits on each. Both are of the type, and of equal
  /// sizes; they may be the same, and an `output` without an address belongs to a rank that needs
  /// no sum. Halves of floats are added as fp32 and rounded once. One sum after the other.
  Task sum(Values input, Values output, int divisor = 1);

 private:
  class UnderWay;

  Communicator& comm_;
  size_t piece_;  // in elements
  SumOrder order_;
  NodeMemory memory_;
  uint32_t number_ = 0;  // of the last piece
};

}  // namespace dlflow::runtime
