#pragma once

#include <cstddef>

#include "runtime/cache/chunk_cache.h"

namespace dlflow::runtime {

/// The division of a node's cache budget, in slots of a chunk each.
struct CacheRoom {
  size_t memory_slots = 0, scratch_slots = 0;            ///< for what its own ranks look at
  size_t part_memory_slots = 0, part_scratch_slots = 0;  ///< for what it keeps for all nodes
  bool operator==(const CacheRoom&) const = default;
};

/// Of `node` of `num_nodes` that share the data; of 1: it keeps no part of it. What a node keeps
/// for all is worth more than what it keeps for itself: each chunk of it saves one reading per
/// epoch, whoever wants it. So it comes first, in memory and then on the disk, but leaves
/// memory for 8 steps, or half of it if that is less. All that fits into memory needs no disk.
///
/// Throws Error{InvalidInput} naming the least memory if not even one step of `order` fits.
CacheRoom divide_budget(const CacheBudget& budget, const ChunkedDataset& data,
                        const VisitOrder& order, size_t node = 0, size_t num_nodes = 1);

/// The same if there is room for so many slots on the disk, and no more.
CacheRoom with_disk_of(CacheRoom room, size_t num_slots);

}  // namespace dlflow::runtime
