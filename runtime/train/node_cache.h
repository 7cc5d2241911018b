#pragma once

#include <memory>
#include <optional>

#include "base/json.h"
#include "runtime/cache/cache_room.h"
#include "runtime/cache/chunk_cache.h"
#include "runtime/cache/node_part.h"
#include "runtime/cache/peer_links.h"
#include "runtime/cache/peer_server.h"
#include "runtime/cache/scratch_slots.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// A ChunkCache of the ranks of this node: its memory is theirs together, its file on the node's
/// disk is made by the first of them. If the budget says that nodes share, each keeps a part of the
/// data for all of them, and its first rank serves it to the others (PeerServer).
class NodeCache {
 public:
  /// Of `order`, leaves and batches of the node's ranks are filled in here; `own_leaves` are this
  /// rank's, nothing if it takes no training steps. On a node whose disk cannot be used there is a
  /// warning on standard error, and no scratch; on one that cannot be reached, the others read what
  /// it would have kept. Collective over all ranks of the step. Throws Error{InvalidInput} if the
  /// budget is too small for a step.
  NodeCache(Communicator& comm, const CachedData& cached, VisitOrder order,
            const std::optional<IndexRange>& own_leaves);

  void start(uint64_t epoch, uint64_t step) { cache_->start(epoch, step); }
  StepImages& training() { return cache_->training(); }
  StepImages& validation() { return cache_->validation(); }

  /// Adds what this node has read, and from where, to a summary.
  void describe(Json& summary) const;

 private:
  CacheOptions take_room(Communicator& comm, CacheRoom& room);
  SharedChunks share(Communicator& comm, const CacheRoom& room, const CacheOptions& options);

  CachedData cached_;
  std::unique_ptr<ScratchRoom> room_;   // of the first rank of the node
  std::unique_ptr<NodePart> part_;      // if nodes share
  std::unique_ptr<PeerServer> server_;  // of the first rank of the node, if nodes share
  std::unique_ptr<PeerLinks> links_;    // if nodes share
  std::unique_ptr<ChunkCache> cache_;
};

}  // namespace dlflow::runtime
