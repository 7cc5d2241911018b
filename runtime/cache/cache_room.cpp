#include "runtime/cache/cache_room.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "runtime/cache/node_part.h"

namespace dlflow::runtime {
namespace {

/// Memory for so many steps lets loads be under way a step ahead (lookahead_for), at little cost.
constexpr size_t kStepsToReadAhead = 8;

size_t memory_within(const CacheBudget& budget, const ChunkedDataset& data, size_t needed) {
  const size_t fit = budget.memory_bytes / data.chunk_bytes();
  if (fit >= needed) return fit;
  throw Error(Errc::InvalidInput,
              "with: 'cache.memory' of " + format_size(budget.memory_bytes) +
                  " is too small: a step of all ranks of a node looks at up to " +
                  std::to_string(needed) + " parts of the data of " +
                  format_size(data.chunk_bytes()) + "; give it at least " +
                  format_size(needed * data.chunk_bytes()));
}

}  // namespace

CacheRoom divide_budget(const CacheBudget& budget, const ChunkedDataset& data,
                        const VisitOrder& order, size_t node, size_t num_nodes) {
  const size_t chunks = data.num_chunks(), needed = order.most_chunks_per_step();
  const size_t memory = memory_within(budget, data, needed);
  const size_t disk = budget.scratch_bytes / data.chunk_bytes();
  const size_t own = num_nodes == 1 ? 0 : chunks_of_node(chunks, node, num_nodes);
  // Of chunks that are not in the node's part there may be more than fit: any of them is looked at.
  const size_t useful = memory >= chunks ? chunks - own : chunks;
  const size_t reserved =
      std::min(useful, std::max(needed, std::min(kStepsToReadAhead * needed, memory / 2)));
  CacheRoom room;
  room.part_memory_slots = std::min(own, memory - reserved);
  room.memory_slots = std::min(memory - room.part_memory_slots, chunks - room.part_memory_slots);
  room.part_scratch_slots = std::min(own - room.part_memory_slots, disk);
  const bool all_in_memory = room.part_memory_slots + room.memory_slots == chunks;
  if (!all_in_memory) {
    room.scratch_slots = std::min(disk - room.part_scratch_slots, chunks - own);
  }
  return room;
}

CacheRoom with_disk_of(CacheRoom room, size_t num_slots) {
  room.part_scratch_slots = std::min(room.part_scratch_slots, num_slots);
  room.scratch_slots = std::min(room.scratch_slots, num_slots - room.part_scratch_slots);
  return room;
}

}  // namespace dlflow::runtime
