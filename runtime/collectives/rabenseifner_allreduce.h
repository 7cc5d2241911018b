#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Replaces `values` on every rank by their sum over all ranks, in place: a reduce-scatter in which
/// in round k each rank gives half of what it still has to do to the one at distance 2^k, and the
/// same rounds backwards as an all-gather. Collective: every rank starts it in the same order with
/// the same count, which may be anything, and type.
///
/// Adds along a binary tree over ranks, neighbours first, if P is a power of two: the bits of exact
/// mode with one part per rank. All ranks get the same bits in any case.
/// Cost for P ranks and n bytes, with a seconds per message, b per byte sent, g per byte added:
/// 2 lg P a + 2(P-1)/P n b + (P-1)/P n g, and for a P that is no power of two 2 (a + n b) + n g
/// more. For large n and many ranks.
/// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
Task rabenseifner_allreduce(Link link, Values values);

}  // namespace dlflow::runtime
