#include "runtime/cache/chunk_fetch.h"

namespace dlflow::runtime {

ChunkFetch::ChunkFetch(const ChunkedDataset& data, ChunkSource& source, ChunkMemory& memory,
                       const SharedChunks& shared, const std::filesystem::path& scratch,
                       const std::function<void(const std::string&)>& warn)
    : data_(data),
      memory_(memory),
      shared_(shared),
      source_(data, source, memory, warn),
      scratch_(data, memory, scratch, warn) {}

void ChunkFetch::carry_out(const ChunkLoad& load, const std::stop_token& stop) {
  const std::span<std::byte> slot = memory_.slot(load.slot);
  if (load.demote_to) {
    scratch_.write(*load.demote_to, slot.first(data_.chunk(load.evicted).bytes));
  }
  const std::span<std::byte> to = slot.first(data_.chunk(load.chunk).bytes);
  if (!load.promote_from || !scratch_.read(*load.promote_from, load.chunk, to)) {
    fetch(load.chunk, to, stop);
  }
  memory_.set_loaded(load.slot, load.number);
}

void ChunkFetch::fetch(uint32_t chunk, std::span<std::byte> to, const std::stop_token& stop) {
  if (shared_.part != nullptr && shared_.part->keeps(chunk)) {
    shared_.part->get(chunk, to, stop);
  } else if (shared_.peers == nullptr || !shared_.peers->read(chunk, to)) {
    source_.read(chunk, to);
  }
}

}  // namespace dlflow::runtime
