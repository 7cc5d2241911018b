#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/collectives/allreduce_plan.h"
#include "runtime/collectives/link.h"
#include "runtime/collectives/node_memory.h"
#include "runtime/collectives/sum_order.h"
#include "runtime/collectives/task.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/comm/communicator.h"

namespace dlflow::runtime {

/// Buffers of numbers on every rank, its parts, and the sum of the parts of all ranks, taken range
/// by range while the rest is still being computed. It owns the memory, so that ranks of a node can
/// share it; AllreducePlan says how each range is summed.
///
/// One thread calls it. Where there are several nodes, another thread, the mover, sums meanwhile;
/// what takes the sums is called by the first one alone.
class Allreduce {
 public:
  /// A range that was started.
  struct Ticket {
    uint64_t number = 0;
  };

  /// Collective. `comm` must outlive this. `consume` takes the sums, instead of values(), before
  /// their range is done; whoever waits for a range may find itself in it. See consumes_shares().
  /// It is only for Float32.
  Allreduce(Communicator& comm, size_t num_elements, AllreduceOptions options = {},
            Consume consume = {});

  /// Part `index` of this rank, 64-byte aligned; zero at first. The sum comes to lie in part 0,
  /// which a rank without parts has, too.
  Values numbers(size_t index = 0) { return memory_.part(index); }

  /// The same as floats; only of Float32.
  std::span<float> part(size_t index) { return numbers(index).floats(); }
  std::span<float> values() { return part(0); }

  /// All ranks share a node: each consumes its share of each range, and what they make of it must
  /// lie in memory that they share. Else every rank consumes everything.
  bool consumes_shares() const { return comm_.node_size() == comm_.size(); }

  /// Announces that elements [first, first + count) of all parts of this rank are final; until the
  /// range is done they are neither read nor written by the caller. Collective: every rank starts
  /// the same ranges, with the same urgency, in the same order. Never waits for peers.
  ///
  /// Few ranges are under way at once, so that they do not share the network with too many: those
  /// of the greatest urgency, the first started of equals, and the first of all. The others stand
  /// still, wherever they are. That cannot end in a deadlock: the first that is not done on some
  /// rank is the first of all there, and moves; others have done it, or it moves there, too.
  Ticket start(size_t first, size_t count, int64_t urgency = 0);

  /// Makes what progress is possible without waiting, on all ranges that are started. Does nothing
  /// where the mover is at it.
  void poll();

  /// Whether the range of values() holds the sum, on this rank, and the caller may write to all
  /// parts of it again. All ranks get the same bits. Makes no progress.
  bool done(Ticket ticket) const;

  /// Returns once that range is done, others may be under way. Not collective: ranks may wait in
  /// any order. Throws Error{Unavailable} naming the rank that was waited for in vain.
  void wait(Ticket ticket);

  /// wait() for every range that was started.
  void finish();

  /// Goes by other rules from the next range on. All ranks together, with nothing under way.
  void follow(RuleSet rules);

 private:
  class UntilDone;
  struct UnderWay {
    Task task;
    int64_t urgency;
    bool summed = false;  // and has still to be consumed
    bool done = false;
  };
  enum class Caller { Owner, Mover };

  // Under the mutex, as all that follows.
  bool is_done(Ticket ticket) const;
  Progress advance(Caller caller);
  Progress poll(UnderWay& range);
  bool move();
  Algorithm over_all(const Range& range) const { return plan_.over_all(bytes_of(range)); }
  size_t bytes_of(const Range& range) const { return range.count * size_of(plan_.type()); }
  Task reduce(const Range& range);
  Task sum(const Range& range);
  Task reduce_by_messages(Algorithm algorithm, Link link, const SumOrder& order,
                          const Range& range);
  Task reduce_in_two_levels(const Range& range);
  Task consume_after(Task sum, Range range);

  Communicator& comm_;
  AllreducePlan plan_;
  Consume consume_;
  NodeMemory memory_;
  mutable std::mutex mutex_;  // guards what follows, and all tasks
  Caller caller_ = Caller::Owner;
  std::exception_ptr error_;       // of a task; nothing moves any more
  std::deque<UnderWay> ranges_;    // the first is not done, others may be
  uint64_t first_ = 0;             // the number of the first, or of the next to be started
  std::vector<uint64_t> waiting_;  // the numbers of those that are not done, the most urgent first
  std::jthread mover_;             // last: it ends before what it moves
};

}  // namespace dlflow::runtime
