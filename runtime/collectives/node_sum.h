#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/collectives/node_memory.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/task.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Sums numbers in private memory over the ranks of one node; Allreduce sums numbers in shared
/// memory. Each rank adds up its share of a piece. It reads its own numbers of that share in place;
/// only the numbers that others add, and its sums, go through shared memory: of N bytes on each of
/// P ranks, N (P-1)/P are copied in and as many out.
class NodeSum {
 public:
  /// Collective over `comm`, whose ranks are all on one node. It must outlive this.
  NodeSum(Communicator& comm, DataType type);

  /// Collective: `output` becomes the sum of `input` over the ranks, added in their order, divided
  /// by `divisor` if that is not 1, with the same bits on each. Both have the given type and equal
  /// sizes; they may be the same. A rank that needs no sum passes an `output` without an address.
  /// Half-precision numbers are added in fp32 and rounded once. One sum runs at a time.
  Task sum(Values input, Values output, int divisor = 1);

 private:
  class UnderWay;

  Communicator& comm_;
  size_t piece_;  // in elements
  SumOrder order_;
  NodeMemory memory_;
  uint32_t number_ = 0;  // number of the last piece
};

}  // namespace dlflow::runtime
