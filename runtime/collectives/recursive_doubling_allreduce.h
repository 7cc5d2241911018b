#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Replaces `values` on every rank by their sum over all ranks, in place: in round k each rank
/// exchanges all it has with the one at distance 2^k. Collective: every rank starts it in the same
/// order with the same count, which may be anything, and type.
///
/// Adds along a binary tree over ranks, neighbours first, if P is a power of two: the bits of exact
/// mode with one part per rank. All ranks get the same bits in any case.
/// Cost for P ranks and n bytes, with a seconds per message, b per byte sent, g per byte added:
/// lg P (a + n b + n g), and for a P that is no power of two 2 (a + n b) + n g more. For small n.
/// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
/// MPICH", Int. J. High Perf. Comp. Appl. 19 (2005).
Task recursive_doubling_allreduce(Link link, Values values);

}  // namespace dlflow::runtime
