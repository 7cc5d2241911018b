#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Replaces `values` on every rank by their sum over all ranks, in place: reduce_scatter, then
/// all_gather. Collective: every rank starts it in the same order with the same count, which may be
/// anything, and type.
///
/// Each P-th of the values is summed in ring order, starting behind its number: all ranks get the
/// same bits, and so do runs with the same P; with another P they agree to rounding.
/// Cost for P ranks and n bytes, with a seconds per message, b per byte sent, g per byte added:
/// 2(P-1) a + 2(P-1)/P n b + (P-1)/P n g. For large n and few ranks, or a P that is no power of
/// two. Source: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124.
Task ring_allreduce(Link link, Values values);

}  // namespace dlflow::runtime
