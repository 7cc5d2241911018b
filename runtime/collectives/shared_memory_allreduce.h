#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/collectives/allreduce.h"

namespace dlflow::runtime {

/// All-reduce among the ranks of one node: each rank sums its share of a range straight from its
/// peers' buffers and writes the result to all of them. Nothing is copied.
///
/// Cost for P ranks with a part of S bytes each: a rank reads and writes S bytes of cache lines,
/// S/P in each buffer; no messages, two flags per range.
class SharedMemoryAllreduce : public Allreduce {
 public:
  /// Collective over the node, which must hold all ranks of `comm`.
  SharedMemoryAllreduce(Communicator& comm, size_t num_elements, SumOrder order);

  std::span<float> part(size_t index) override;

  /// Never waits: reduces its share of those earlier ranges that all peers have started.
  void start(size_t first, size_t count) override;
  void finish() override;

 private:
  struct Range {
    size_t first, count;
  };
  struct Flags;

  bool all_started(uint32_t ranges) const;
  void reduce_next();
  void wait_for_all(std::atomic<uint32_t> Flags::*flag, uint32_t ranges) const;

  Communicator& comm_;
  size_t num_elements_;
  size_t stride_;  // from one part of a rank to the next
  SumOrder order_;
  std::vector<float*> values_;       // of each rank: its part 0
  std::vector<const float*> parts_;  // of all ranks
  std::vector<Flags*> flags_;        // of each rank
  std::deque<Range> started_;        // and not yet reduced, oldest first
  uint32_t num_started_ = 0, num_reduced_ = 0;
};

}  // namespace dlflow::runtime
