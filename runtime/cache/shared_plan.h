#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/cache/chunk_memory.h"
#include "runtime/cache/chunk_plan.h"

namespace dlflow::runtime {

/// A step of a node as its ranks are told it.
struct PlannedStep {
  StepChunks chunks;
  std::vector<uint32_t> of_part;  ///< chunks of the step that are in the node's part, besides
};

/// Steps on their way from the rank that plans to all ranks of its node, through memory that they
/// share. So what a plan knows of the future, which grows with the data, is there once for a node,
/// and so is the work of planning.
///
/// One rank tells; each rank hears every step, in order. There is room for 16 steps, and a step
/// takes the place of the 16th before it once all ranks have heard that one. Nobody locks anything.
/// A copy is the same memory.
class SharedPlan {
 public:
  struct Dimensions {
    size_t chunks_per_step = 0;  ///< at most
    int num_ranks = 1;
  };

  /// Bytes that it takes.
  static size_t bytes_for(const Dimensions& dimensions);

  /// \param memory  bytes_for(dimensions) zeroed bytes, 64-byte aligned, the same for all ranks
  SharedPlan(std::byte* memory, const Dimensions& dimensions);

  /// False, and nothing is told, while there is no room. One thread of one rank calls it.
  bool tell(const PlannedStep& step);

  /// The step after the last that this rank has heard; nothing if it was not told yet. One thread
  /// of each rank calls it.
  std::optional<PlannedStep> hear(int rank);

 private:
  static constexpr uint64_t kSteps = 16;

  struct alignas(kCacheLine) Count {
    std::atomic<uint64_t> steps;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // between processes

  static size_t record_bytes(size_t chunks_per_step);
  std::byte* record(uint64_t number) const { return records_ + number % kSteps * record_bytes_; }

  Dimensions dimensions_;
  size_t record_bytes_;
  Count* told_;
  Count* heard_;  // by each rank
  std::byte* records_;
};

}  // namespace dlflow::runtime
