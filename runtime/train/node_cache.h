#pragma once

#include <memory>
#include <optional>

#include "base/json.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/chunk_cache.h"
#include "runtime/data/scratch_slots.h"

namespace dlflow::runtime {

/// A ChunkCache of the ranks of this node: its memory is theirs together, its file on the node's
/// disk is made by the first of them. Nodes share nothing: each has what its own ranks look at.
class NodeCache {
 public:
  /// Of `order`, leaves and batches of the node's ranks are filled in here; `own_leaves` are this
  /// rank's, nothing if it takes no training steps. On a node whose disk cannot be used there is a
  /// warning on standard error, and no scratch. Collective over all ranks of the step. Throws
  /// Error{InvalidInput} if the budget is too small for a step.
  NodeCache(Communicator& comm, const CachedData& cached, VisitOrder order,
            const std::optional<Run>& own_leaves);

  void start(uint64_t epoch, uint64_t step) { cache_->start(epoch, step); }
  StepImages& training() { return cache_->training(); }
  StepImages& validation() { return cache_->validation(); }

  /// Adds what this node has read, and from where, to a summary.
  void describe(Json& summary) const;

 private:
  CachedData cached_;
  std::unique_ptr<ScratchRoom> room_;  // of the first rank of the node
  std::unique_ptr<ChunkCache> cache_;
};

}  // namespace dlflow::runtime
