#include "runtime/cache/node_part.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "base/error.h"

namespace dlflow::runtime {
ChunkKeeper keeper_of(uint32_t chunk, size_t num_nodes) {
  return {chunk % num_nodes, chunk / num_nodes};
}

size_t chunks_of_node(size_t num_chunks, size_t node, size_t num_nodes) {
  return num_chunks / num_nodes + (node < num_chunks % num_nodes ? 1 : 0);
}

size_t NodePart::bytes_for(const Dimensions& dimensions) {
  const size_t size = dimensions.memory_slots + dimensions.scratch_slots;
  return std::max(kCacheLine, whole_lines_of(size * sizeof(std::atomic<uint32_t>))) +
         dimensions.memory_slots * whole_lines_of(dimensions.slot_bytes);
}

// Zeroed memory is what these atomics are after construction; every rank finds them in it.
NodePart::NodePart(const ChunkedDataset& data, ChunkSource& source, const ChunkMemory& books,
                   std::byte* memory, const Dimensions& dimensions,
                   const std::filesystem::path& scratch,
                   const std::function<void(const std::string&)>& warn)
    : data_(data),
      dimensions_(dimensions),
      stride_(whole_lines_of(dimensions.slot_bytes)),
      state_(std::launder(reinterpret_cast<std::atomic<uint32_t>*>(memory))),
      slots_(memory + bytes_for(dimensions) - dimensions.memory_slots * stride_),
      source_(data, source, books, warn),
      scratch_(data, books, dimensions.scratch_slots > 0 ? scratch : "", warn) {
  static_assert(std::atomic<uint32_t>::is_always_lock_free);  // between processes
}

bool NodePart::keeps(uint32_t chunk) const {
  const ChunkKeeper keeper = keeper_of(chunk, dimensions_.num_nodes);
  return keeper.node == dimensions_.node && keeper.index < size();
}

bool NodePart::keeps_in_memory(uint32_t chunk) const {
  const ChunkKeeper keeper = keeper_of(chunk, dimensions_.num_nodes);
  return keeper.node == dimensions_.node && keeper.index < dimensions_.memory_slots;
}

bool NodePart::has(uint32_t chunk) const {
  return state_[index_of(chunk)].load(std::memory_order_acquire) == Ready;
}

std::span<const std::byte> NodePart::in_memory(uint32_t chunk) const { return slot(chunk); }

std::span<std::byte> NodePart::slot(uint32_t chunk) const {
  return {slots_ + index_of(chunk) * stride_, data_.chunk(chunk).bytes};
}

std::span<const std::byte> NodePart::get(uint32_t chunk, std::span<std::byte> room,
                                         const std::stop_token& stop) {
  const bool in_memory = keeps_in_memory(chunk);
  const std::span<std::byte> to = in_memory ? slot(chunk) : room;
  std::atomic<uint32_t>& state = state_[index_of(chunk)];
  while (!stop.stop_requested()) {
    uint32_t seen = state.load(std::memory_order_acquire);
    if (seen == Ready) {
      if (!in_memory && !scratch_.read(scratch_slot(chunk), chunk, to)) source_.read(chunk, to);
      return to;
    }
    if (seen == Empty && state.compare_exchange_strong(seen, Filling)) {
      state.store(fill(chunk, to), std::memory_order_release);
      return to;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  throw Error(Errc::Unavailable, "the cache was stopped");
}

/// What becomes of the chunk, which is the caller's to fill.
NodePart::State NodePart::fill(uint32_t chunk, std::span<std::byte> to) {
  try {
    source_.read(chunk, to);
  } catch (...) {
    state_[index_of(chunk)].store(Empty, std::memory_order_release);
    throw;
  }
  return keeps_in_memory(chunk) || scratch_.write(scratch_slot(chunk), to) ? Ready : Empty;
}

}  // namespace dlflow::runtime
