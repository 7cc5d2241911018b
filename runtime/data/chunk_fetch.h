#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/data/chunk_memory.h"
#include "runtime/data/chunk_plan.h"
#include "runtime/data/chunk_source.h"
#include "runtime/data/chunked_dataset.h"
#include "runtime/data/scratch_slots.h"

namespace dlflow::runtime {

/// Brings chunks from level to level. Each is proven by its hash whenever it comes to memory: one
/// that scratch has damaged comes from the source, one that the source has damaged is read once
/// more.
class ChunkFetch {
 public:
  /// \param scratch  empty: none
  /// \param warn     is told once for this node what went wrong and was mended
  ChunkFetch(const ChunkedDataset& data, ChunkSource& source, ChunkMemory& memory,
             const std::filesystem::path& scratch, std::function<void(const std::string&)> warn);

  /// Carries out `load`; nobody else uses its slots. Throws Error{Corrupt} naming the file whose
  /// chunk is damaged, and what ChunkSource::read throws.
  void carry_out(const ChunkLoad& load);

 private:
  void demote(std::span<const std::byte> from, uint32_t to);
  bool promote(uint32_t chunk, uint32_t from, std::span<std::byte> to);
  void read_source(uint32_t chunk, std::span<std::byte> to);
  void give_up_scratch(const std::string& reason);

  const ChunkedDataset& data_;
  ChunkSource& source_;
  ChunkMemory& memory_;
  std::optional<ScratchSlots> scratch_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace dlflow::runtime
