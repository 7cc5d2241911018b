#include "runtime/collectives/shared_memory_allreduce.h"

namespace dlflow::runtime {

Task shared_memory_allreduce(NodeMemory& memory, const SumOrder& order, Range range) {
  memory.announce(NodeMemory::Stage::Started, range);
  co_await memory.all_started(range);
  const Range mine = memory.share(range, memory.rank(), memory.size());
  sum_parts(memory.parts(), order.additions, memory.values(), mine.first, mine.count);
  memory.announce(NodeMemory::Stage::Reduced, range);
  co_await memory.all_reduced(range, memory.size());
}

Task shared_memory_reduce(NodeMemory& memory, const SumOrder& order, Range range,
                          const Consume& consume) {
  memory.announce(NodeMemory::Stage::Started, range);
  co_await memory.all_started(range);
  const Range mine = memory.share(range, memory.rank(), memory.size());
  sum_parts(memory.parts(), order.additions, mine.first, mine.count, consume);
  memory.announce(NodeMemory::Stage::Reduced, range);
  co_await memory.all_reduced(range, memory.size());
}

}  // namespace dlflow::runtime
