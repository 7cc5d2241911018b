#pragma once

#include <functional>
#include <span>
#include <string>

#include "runtime/cache/chunk_memory.h"
#include "runtime/cache/chunk_source.h"
#include "runtime/data/chunked_dataset.h"

namespace dlflow::runtime {

/// Chunks from the source, each proven by its hash; one that comes damaged is read once more. Any
/// thread calls it.
class ProvenSource {
 public:
  /// All but `books` must outlive this. \param warn  is told once for this node of damage
  ProvenSource(const ChunkedDataset& data, ChunkSource& source, const ChunkMemory& books,
               std::function<void(const std::string&)> warn);

  /// Fills `to`, of the chunk's size. Throws Error{Corrupt} naming the file whose chunk is damaged,
  /// and what ChunkSource::read throws.
  void read(uint32_t chunk, std::span<std::byte> to);

 private:
  const ChunkedDataset& data_;
  ChunkSource& source_;
  ChunkMemory books_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace dlflow::runtime
