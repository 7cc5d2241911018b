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

/// Holds this rank's parts, buffers of numbers, and sums the parts of all ranks range by range
/// while the rest is still being computed. It owns the memory, so that ranks of a node can share
/// it; AllreducePlan decides how each range is summed.
///
/// One thread calls it. With several nodes, a second thread, the mover, sums meanwhile; `consume`
/// is called by the first thread only.
class Allreduce {
 public:
  /// A range that was started.
  struct Ticket {
    uint64_t number = 0;
  };

  /// Collective. `comm` must outlive this. With `consume`, sums are passed to it before their range
  /// is done, instead of appearing in values(); wait() may call it. See consumes_shares(). It
  /// requires Float32.
  Allreduce(Communicator& comm, size_t num_elements, AllreduceOptions options = {},
            Consume consume = {});

  /// Part `index` of this rank, 64-byte aligned; zero at first. Part 0 receives the sum; a rank
  /// without parts has it, too.
  Values numbers(size_t index = 0) { return memory_.part(index); }

  /// The same as floats; for Float32 only.
  std::span<float> part(size_t index) { return numbers(index).floats(); }
  std::span<float> values() { return part(0); }

  /// True if all ranks share a node: then each consumes its share of each range, and its results
  /// must lie in shared memory. Otherwise every rank consumes everything.
  bool consumes_shares() const { return comm_.node_size() == comm_.size(); }

  /// Announces that elements [first, first + count) of all parts of this rank are final; until the
  /// range is done the caller neither reads nor writes them. Collective: every rank starts the same
  /// ranges, with the same urgency, in the same order. Never waits for peers.
  ///
  /// Only a few ranges are under way at once, to share the network among few: the most urgent ones,
  /// the oldest first among equals, and always the oldest range. The others are suspended. This
  /// cannot deadlock: the oldest range that is unfinished on some rank always moves there, and its
  /// peers have finished it, or move it, too.
  Ticket start(size_t first, size_t count, int64_t urgency = 0);

  /// Makes what progress is possible without waiting, on all started ranges. Does nothing while the
  /// mover is at work.
  void poll();

  /// Whether the range of values() holds the sum on this rank; then the caller may write to all
  /// parts of it again. All ranks get the same bits. Makes no progress.
  bool done(Ticket ticket) const;

  /// Returns once that range is done; others may still be under way. Not collective: ranks may wait
  /// in any order. Throws Error{Unavailable} naming the rank that did not answer in time.
  void wait(Ticket ticket);

  /// wait() for every range that was started.
  void finish();

  /// Uses other rules from the next range on. Called by all ranks together, with nothing under way.
  void follow(RuleSet rules);

 private:
  class UntilDone;
  struct UnderWay {
    Task task;
    int64_t urgency;
    bool summed = false;  // but not yet consumed
    bool done = false;
  };
  enum class Caller { Owner, Mover };

  // Called with the mutex held, like all that follow.
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
  mutable std::mutex mutex_;  // guards the members below, and all tasks
  Caller caller_ = Caller::Owner;
  std::exception_ptr error_;       // thrown by a task; nothing moves any more
  std::deque<UnderWay> ranges_;    // the first is unfinished, others may be done
  uint64_t first_ = 0;             // the number of the first, or of the next to be started
  std::vector<uint64_t> waiting_;  // numbers of unfinished ranges, the most urgent first
  std::jthread mover_;             // last member: destroyed before the data it moves
};

}  // namespace dlflow::runtime
