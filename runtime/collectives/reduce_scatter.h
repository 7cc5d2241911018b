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

}  // namespace dlflow::runtime
