#include "runtime/collectives/hierarchical_allreduce.h"

#include <algorithm>

#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {

Task hierarchical_allreduce(NodeMemory& memory, std::span<const uint8_t> additions, int slices,
                            Range range, std::function<Task(Range)> between_nodes) {
  memory.announce(NodeMemory::Stage::Started, range);
  co_await memory.all_started(range);
  if (memory.rank() < slices) {
    const Range slice = memory.share(range, memory.rank(), slices);
    const Values sum = memory.part(0).subrange(slice.first, slice.count);
    const Values own = memory.part(0);
    sum_parts(memory.parts(), additions, {&own, 1}, slice.first, slice.count);
    co_await between_nodes(slice);
    for (const Values& values : memory.values()) {
      const Values copy = values.subrange(slice.first, slice.count);
      if (copy.data != sum.data) std::ranges::copy(sum.bytes(), copy.data);
    }
  }
  memory.announce(NodeMemory::Stage::Reduced, range);
  co_await memory.all_reduced(range, slices);
}

}  // namespace dlflow::runtime
