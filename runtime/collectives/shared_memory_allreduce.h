#pragma once

#include "runtime/collectives/node_memory.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {

/// All-reduce among the ranks of one node: each rank sums its share of `range` straight from its
/// peers' buffers, in `order`, and writes the result to all of them. Nothing is copied.
///
/// Collective over the node, which must hold all ranks. `memory` and `order` outlive the task.
/// Cost for P ranks with a part of n bytes each: a rank reads and writes n bytes of cache lines,
/// n/P in each buffer; no messages, two flags. Always the fastest where it can be used.
Task shared_memory_allreduce(NodeMemory& memory, const SumOrder& order, Range range);

/// The same, but nothing is written back: each rank hands its share of the sums to `consume`. Done
/// once all ranks have, so that what they made of it in memory that they share is there for all.
Task shared_memory_reduce(NodeMemory& memory, const SumOrder& order, Range range,
                          const Consume& consume);

}  // namespace dlflow::runtime
