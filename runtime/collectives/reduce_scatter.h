#pragma once

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Leaves in share `rank` of `values` (Values::share) its sum over all ranks; the other shares are
/// then undefined. In place; the same count and type on every rank.
///
/// Share s is added in the order of ranks s+1, s+2, ..., s. Cost for P ranks and n bytes, with a
/// seconds per message, b per byte sent, g per byte added: (P-1) a + (P-1)/P n (b + g), which is
/// optimal.
/// Source: the first half of Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124.
Task reduce_scatter(Link link, Values values);

/// Sends `sent` to rank `to` and adds the values from rank `from` to `into`: the basic step of all
/// sums. Either may be empty, and both may be the same memory. `link` outlives the task.
///
/// The messages hold at most 256 KiB; the next ones travel while one is added, so that received
/// data is still in the cache. Needs at most 2 MiB of scratch memory, however large the sum is.
Task exchange_and_add(const Link& link, Values sent, int to, Values into, int from);

}  // namespace dlflow::runtime
