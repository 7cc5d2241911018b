#include "runtime/collectives/hierarchical_allreduce.h"

#include <cstring>

#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {

Task hierarchical_allreduce(NodeMemory& memory, std::span<const uint8_t> additions, int slices,
                            Range range, std::function<Task(Range)> between_nodes) {
  memory.announce(NodeMemory::Stage::Started, range);
  co_await memory.all_started(range);
  if (memory.rank() < slices) {
    const Range slice = memory.share(range, memory.rank(), slices);
    float* const sum = memory.part(0).data();
    sum_parts(memory.parts(), additions, {&sum, 1}, slice.first, slice.count);
    co_await between_nodes(slice);
    for (float* const values : memory.values()) {
      if (values == sum) continue;
      std::memcpy(values + slice.first, sum + slice.first, slice.count * sizeof(float));
    }
  }
  memory.announce(NodeMemory::Stage::Reduced, range);
  co_await memory.all_reduced(range, slices);
}

}  // namespace dlflow::runtime
