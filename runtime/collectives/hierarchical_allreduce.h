#pragma once

#include <functional>

#include "runtime/collectives/node_memory.h"

namespace dlflow::runtime {

/// All-reduce in two levels. The first `slices` ranks of each node sum a slice of `range` each over
/// their node's buffers, in the order of `additions`, all-reduce it with their peers of the other
/// nodes by `between_nodes`, and write the result to all buffers of their node. Only sums of nodes
/// travel; those of halves of floats are rounded first.
///
/// Collective over all ranks. `slices`: ranks that every node has; then slices are the same on all
/// nodes. `between_nodes(slice)` starts this rank's all-reduce of the slice of values() in place.
/// `memory` and `additions` (SumOrder, over the parts of the node) outlive the task.
/// Cost for m nodes of q ranks and n bytes: in shared memory as shared_memory_allreduce, and
/// between nodes that of an all-reduce of n/q bytes over m ranks, q of them at a time: with a ring
/// 2(m-1) a + 2(m-1)/m n/q b. Where a node holds several ranks.
Task hierarchical_allreduce(NodeMemory& memory, std::span<const uint8_t> additions, int slices,
                            Range range, std::function<Task(Range)> between_nodes);

}  // namespace dlflow::runtime
