#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "runtime/collectives/node_memory.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/task.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/values.h"

namespace dlflow::runtime {

struct AllreduceOptions {
  /// What decides the bits of the sum: then they are the same whatever way is taken. Left out: one
  /// part per rank, added in whatever order is fastest; runs with the same ranks agree.
  std::optional<SumOrder> order = std::nullopt;

  /// Takes the sums, instead of values(), before their range is done. Whoever waits for a range may
  /// find itself in it. See consumes_shares().
  Consume consume = {};
};

/// fp32 buffers on every rank, its parts, and the sum of the parts of all ranks, taken range by
/// range while the rest is still being computed. It owns the memory, so that ranks of a node can
/// share it, and chooses how each range is summed.
class Allreduce {
 public:
  /// A range that was started.
  struct Ticket {
    uint64_t number = 0;
  };

  /// Collective. `comm` must outlive this.
  Allreduce(Communicator& comm, size_t num_elements, AllreduceOptions options = {});

  /// Part `index` of this rank, 64-byte aligned; zero at first.
  std::span<float> part(size_t index) { return memory_.part(index); }

  /// Where the sum comes to lie: part 0. A rank without parts has it, too.
  std::span<float> values() { return part(0); }

  /// All ranks share a node: each consumes its share of each range, and what they make of it must
  /// lie in memory that they share. Else every rank consumes everything.
  bool consumes_shares() const { return comm_.node_size() == comm_.size(); }

  /// Announces that elements [first, first + count) of all parts of this rank are final; until the
  /// range is done they are neither read nor written by the caller. Collective: every rank starts
  /// the same ranges in the same order. Never waits for peers.
  Ticket start(size_t first, size_t count);

  /// Makes what progress is possible without waiting, on all ranges that are started.
  void poll() { advance(); }

  /// Whether the range of values() holds the sum, on this rank, and the caller may write to all
  /// parts of it again. All ranks get the same bits. Makes no progress.
  bool done(Ticket ticket) const;

  /// Returns once that range is done, others may be under way. Not collective: ranks may wait in
  /// any order. Throws Error{Unavailable} naming the rank that was waited for in vain.
  void wait(Ticket ticket);

  /// wait() for every range that was started.
  void finish();

 private:
  class UntilDone;
  struct UnderWay {
    Task task;
    bool done = false;
  };

  Progress advance();
  Task reduce(const Range& range);
  Task reduce_by_messages(const Range& range);
  Task consume_after(Task sum, Range range);

  Communicator& comm_;
  bool ordered_;
  SumOrder order_;
  Consume consume_;
  NodeMemory memory_;
  std::deque<UnderWay> ranges_;  // the first is not done, others may be
  uint64_t first_ = 0;           // the number of the first, or of the next to be started
};

}  // namespace dlflow::runtime
