#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "runtime/cache/chunk_memory.h"
#include "runtime/cache/chunk_source.h"
#include "runtime/cache/proven_source.h"
#include "runtime/cache/scratch_level.h"
#include "runtime/data/chunked_dataset.h"

namespace dlflow::runtime {

/// Which node of a job keeps a chunk for all of them. Chunks go round the nodes, so that the parts
/// are equal and known without a word: node n has chunks n, n + N, n + 2N, ...; it keeps as many of
/// them as it has room for, the first ones.
struct ChunkKeeper {
  size_t node = 0;
  size_t index = 0;  ///< of the node's chunks, which one
};
ChunkKeeper keeper_of(uint32_t chunk, size_t num_nodes);
size_t chunks_of_node(size_t num_chunks, size_t node, size_t num_nodes);

/// The chunks that one node keeps for all nodes of a job: each is read from the source when it is
/// first wanted, by whoever wants it, and stays. The ranks of the node share it, through memory
/// beside that of their ChunkMemory and through slots of the same file on the node's disk. Any
/// thread of any rank calls it; it waits for nothing but the source and the disk.
class NodePart {
 public:
  struct Dimensions {
    size_t node = 0, num_nodes = 1;
    size_t memory_slots = 0, scratch_slots = 0;  ///< the first of its chunks are in memory
    size_t slot_bytes = 0;
    size_t first_scratch_slot = 0;  ///< in the file
  };

  /// Bytes that it takes, with the books.
  static size_t bytes_for(const Dimensions& dimensions);

  /// `data` and `source` must outlive this.
  /// \param memory   bytes_for(dimensions) zeroed bytes, 64-byte aligned, the same for all ranks
  /// \param scratch  of a ScratchRoom; empty: none
  NodePart(const ChunkedDataset& data, ChunkSource& source, const ChunkMemory& books,
           std::byte* memory, const Dimensions& dimensions, const std::filesystem::path& scratch,
           const std::function<void(const std::string&)>& warn);

  /// Number of chunks that it keeps.
  size_t size() const { return dimensions_.memory_slots + dimensions_.scratch_slots; }
  bool keeps(uint32_t chunk) const;
  bool keeps_in_memory(uint32_t chunk) const;

  /// Whether a chunk that it keeps in memory is there, and where.
  bool has(uint32_t chunk) const;
  std::span<const std::byte> in_memory(uint32_t chunk) const;

  /// A chunk that it keeps, read from the source if nobody has done that yet: where it lies in
  /// memory, or in `room`, of its size, if it is kept on the disk. Throws as ProvenSource::read,
  /// and Error{Unavailable} if `stop` is requested while another thread reads it.
  std::span<const std::byte> get(uint32_t chunk, std::span<std::byte> room,
                                 const std::stop_token& stop);

 private:
  enum State : uint32_t { Empty, Filling, Ready };

  size_t index_of(uint32_t chunk) const { return keeper_of(chunk, dimensions_.num_nodes).index; }
  size_t scratch_slot(uint32_t chunk) const {
    return dimensions_.first_scratch_slot + index_of(chunk) - dimensions_.memory_slots;
  }
  std::span<std::byte> slot(uint32_t chunk) const;
  State fill(uint32_t chunk, std::span<std::byte> to);

  const ChunkedDataset& data_;
  Dimensions dimensions_;
  size_t stride_;                 // from a slot to the next
  std::atomic<uint32_t>* state_;  // of each chunk that it keeps
  std::byte* slots_;
  ProvenSource source_;
  ScratchLevel scratch_;
};

}  // namespace dlflow::runtime
