#pragma once

#include <span>
#include <vector>

#include "runtime/collectives/link.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

/// Fills `bytes` with the blocks of all ranks, one after the other: block r has sizes[r] bytes,
/// which add up to bytes.size(), and rank r has put its own in place. The same sizes on every rank;
/// 0 is allowed.
///
/// Cost for P ranks and n bytes in all, with a seconds per message and b per byte sent:
/// (P-1) a + (P-1)/P n b with blocks of one size, which is the least that can be received; uneven
/// blocks cost as if all had the largest's.
/// Source: the second half of Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009), 117-124.
Task all_gather(Link link, std::span<std::byte> bytes, std::vector<size_t> sizes);

/// The same for the shares of `values`: what reduce_scatter leaves.
Task all_gather(Link link, Values values);

}  // namespace dlflow::runtime
