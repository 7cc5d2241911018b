#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Replaces `values` on every rank by their sum over all ranks, in place: up a binomial tree to
/// rank 0, and down again by broadcast(). Collective: every rank starts it in the same order with
/// the same count, which may be anything, and type.
///
/// Adds along a binary tree over ranks, neighbours first, for any P: the bits of exact mode with
/// one part per rank.
/// Cost for P ranks and n bytes, with a seconds per message, b per byte sent, g per byte added:
/// 2 lg P (a + n b) + lg P n g; but all ranks together send only 2(P-1) messages, the fewest
/// possible. For small n where ranks share a core or a wire.
Task tree_allreduce(Link link, Values values);

}  // namespace dlflow::runtime
