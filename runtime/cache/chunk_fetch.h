#pragma once

#include <functional>
#include <string>

#include "runtime/cache/chunk_memory.h"
#include "runtime/cache/chunk_plan.h"
#include "runtime/cache/chunk_source.h"
#include "runtime/cache/node_part.h"
#include "runtime/cache/peer_links.h"
#include "runtime/cache/proven_source.h"
#include "runtime/cache/scratch_level.h"
#include "runtime/data/chunked_dataset.h"

namespace dlflow::runtime {

/// The connections to other nodes that share chunks; null: none. Both must outlive their user.
struct SharedChunks {
  NodePart* part = nullptr;    ///< what this node keeps for all
  PeerLinks* peers = nullptr;  ///< of this rank
};

/// Brings chunks from level to level. Each is proven by its hash whenever it comes to memory: one
/// that scratch or a peer has damaged comes from the source, one that the source has damaged is
/// read once more.
class ChunkFetch {
 public:
  /// \param scratch  empty: none
  /// \param warn     is told once for this node what went wrong and was mended
  ChunkFetch(const ChunkedDataset& data, ChunkSource& source, ChunkMemory& memory,
             const SharedChunks& shared, const std::filesystem::path& scratch,
             const std::function<void(const std::string&)>& warn);

  /// Carries out `load`; nobody else uses its slots. Throws Error{Corrupt} naming the file whose
  /// chunk is damaged, what ChunkSource::read throws, and Error{Unavailable} if `stop` is requested
  /// while another rank reads the chunk.
  void carry_out(const ChunkLoad& load, const std::stop_token& stop);

 private:
  /// From wherever it is, if this node has no copy that the plan knows of.
  void fetch(uint32_t chunk, std::span<std::byte> to, const std::stop_token& stop);

  const ChunkedDataset& data_;
  ChunkMemory& memory_;
  SharedChunks shared_;
  ProvenSource source_;
  ScratchLevel scratch_;
};

}  // namespace dlflow::runtime
