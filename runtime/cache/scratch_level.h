#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "runtime/cache/chunk_memory.h"
#include "runtime/cache/scratch_slots.h"
#include "runtime/data/chunked_dataset.h"

namespace dlflow::runtime {

/// Chunks on the node's disk, as a cache uses them: each is proven when it is read, and a disk that
/// fails is said so once, by one rank of the node, and used by none any more. Any thread calls it.
class ScratchLevel {
 public:
  /// `data` must outlive this. \param file  of a ScratchRoom; empty: there is none
  ScratchLevel(const ChunkedDataset& data, const ChunkMemory& books,
               const std::filesystem::path& file, std::function<void(const std::string&)> warn);

  /// Both return whether it worked. `to` is of the chunk's size.
  bool write(size_t slot, std::span<const std::byte> from);
  bool read(size_t slot, uint32_t chunk, std::span<std::byte> to);

 private:
  bool is_usable() const { return slots_ && books_.uses_scratch(); }
  void give_up(const std::string& reason);

  const ChunkedDataset& data_;
  ChunkMemory books_;
  std::optional<ScratchSlots> slots_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace dlflow::runtime
