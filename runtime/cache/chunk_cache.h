#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runtime/cache/chunk_fetch.h"
#include "runtime/cache/chunk_memory.h"
#include "runtime/cache/chunk_source.h"
#include "runtime/cache/shared_plan.h"
#include "runtime/cache/visit_order.h"
#include "runtime/data/chunked_dataset.h"
#include "runtime/data/node_disk.h"
#include "runtime/data/step_images.h"

/// A data set on three levels: its source, a node's disk, the memory that the ranks of a node
/// share.
namespace dlflow::runtime {

/// Limits of what one job may take of a node.
struct CacheBudget {
  uint64_t memory_bytes = 0;
  uint64_t scratch_bytes = 0;  ///< 0: none
  bool share = false;          ///< nodes keep a part of the data for each other
  bool operator==(const CacheBudget&) const = default;
};

/// The data that a run reads through a cache.
struct CachedData {
  std::shared_ptr<const ChunkedDataset> data;
  std::shared_ptr<ChunkSource> source;
  CacheBudget budget;  ///< of each node
  NodeDisk disk;       ///< for the level of the node's disk, if the budget has one
};

/// The settings of a cache; all of them but `rank` are the same for all ranks of a node.
struct CacheOptions {
  std::byte* memory = nullptr;  ///< ChunkMemory::bytes_for(shape) zeroed bytes
  ChunkMemory::Dimensions shape;
  std::byte* plan_memory = nullptr;    ///< SharedPlan::bytes_for(planned()) zeroed bytes
  size_t chunks_per_step = 0;          ///< of the node, at most
  int rank = 0;                        ///< of the node
  bool trains = true;                  ///< false: it takes no training steps
  std::filesystem::path scratch_file;  ///< of a ScratchRoom; empty: none
  size_t scratch_slots = 0;
  SharedChunks shared;
  std::function<void(const std::string&)> warn;  ///< what went wrong and was mended; any thread

  SharedPlan::Dimensions planned() const { return {chunks_per_step, shape.num_ranks}; }
};

/// One rank's end of it. Threads in the background read this rank's share of what the node needs
/// next, some chunks at a time, beginning in the order of need, as far ahead as there is room and
/// at most 64 steps. They wait without turning, so that they take from the rank's core what reading
/// and hashing take, and only where the core has nothing to do if it is short.
///
/// What is loaded when, and what goes, is a ChunkPlan, which the first rank of the node works out
/// and tells the others (SharedPlan), 64 steps ahead of the rank that is farthest. Ranks tell each
/// other how far they are through the memory that they share, and wait for nothing else. They
/// cannot wait in a circle: a step is planned before any rank comes to it, loads are numbered in
/// the order of need, a load waits for loads of lower numbers and for the end of steps before its
/// own, and a step waits for its own loads. So a rank keeps its cache until all of them are
/// through. What the node keeps in
/// memory for all nodes is no part of the plan: it is looked at where it lies, and read when a step
/// of the node needs it, or before, by whoever asks for it.
class ChunkCache {
 public:
  /// `data`, `source` and what `options` point to must outlive this.
  ChunkCache(const ChunkedDataset& data, ChunkSource& source, VisitOrder order,
             CacheOptions options);
  ~ChunkCache();

  /// Begins to read; `step` is the first to be trained, or steps of the epoch if it is over. Once.
  void start(uint64_t epoch, uint64_t step);

  /// Images of the steps in which this rank trains, and of its batches of validation, one after
  /// the other whatever they are called. Each may have a thread of its own.
  StepImages& training();
  StepImages& validation();

  /// Of the node, so far.
  CacheTraffic traffic() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace dlflow::runtime
