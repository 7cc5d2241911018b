#include "runtime/collectives/allreduce.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/direct_allreduce.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/collectives/node_memory.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

/// All-reduce among the ranks of one node: each rank sums its share of `range` straight from its
/// peers' buffers, in `order`, and writes the result to all of them. Nothing is copied.
///
/// Collective over the node, which must hold all ranks. `memory` and `order` outlive the task. Cost
/// for P ranks with a part of n bytes each: a rank reads and writes n bytes of cache lines, n/P in
/// each buffer; no messages, two flags. Always the fastest where it can be used.
///
/// With `consume`, which also outlives the task, nothing is written back: each rank passes its
/// share of the sums to it. The task ends once all ranks have consumed theirs, so that results in
/// shared memory are then complete.
Task shared_memory_allreduce(NodeMemory& memory, const SumOrder& order, Range range,
                             const Consume* consume = nullptr) {
  memory.announce(NodeMemory::Stage::Started, range);
  co_await memory.all_started(range);
  const Range mine = memory.share(range, memory.rank(), memory.size());
  if (consume != nullptr) {
    sum_parts(memory.parts(), order.additions, mine.first, mine.count, *consume);
  } else {
    sum_parts(memory.parts(), order.additions, memory.values(), mine.first, mine.count);
  }
  memory.announce(NodeMemory::Stage::Reduced, range);
  co_await memory.all_reduced(range, memory.size());
}

/// All-reduce in two levels. The first `slices` ranks of each node sum a slice of `range` each over
/// their node's buffers, in the order of `additions`, all-reduce it with their peers of the other
/// nodes by `between_nodes`, and write the result to all buffers of their node. Only sums of nodes
/// travel; those of half-precision numbers are rounded first.
///
/// Collective over all ranks, for nodes with several ranks. `slices`: the number of ranks that
/// every node has, so that slices are the same on all nodes. `between_nodes(slice)` starts this
/// rank's all-reduce of the slice of values() in place. `memory` and `additions` (SumOrder, over
/// the parts of the node) outlive the task. Cost for m nodes of q ranks and n bytes: in shared
/// memory as shared_memory_allreduce, and between nodes that of q concurrent all-reduces of n/q
/// bytes over m ranks: with a ring 2(m-1) a + 2(m-1)/m n/q b.
Task hierarchical_allreduce(NodeMemory& memory, std::span<const uint8_t> additions, int slices,
                            Range range, std::function<Task(Range)> between_nodes) {
  memory.announce(NodeMemory::Stage::Started, range);
  co_await memory.all_started(range);
  if (memory.rank() < slices) {
    const Range slice = memory.share(range, memory.rank(), slices);
    const Values sum = memory.part(0).subrange(slice.first, slice.count);
    const Values own = memory.part(0);
    sum_parts(memory.parts(), additions, {&own, 1}, slice.first, slice.count);
    co_await between_nodes(slice);
    for (const Values& values : memory.values()) {
      const Values copy = values.subrange(slice.first, slice.count);
      if (copy.data != sum.data) std::ranges::copy(sum.bytes(), copy.data);
    }
  }
  memory.announce(NodeMemory::Stage::Reduced, range);
  co_await memory.all_reduced(range, slices);
}

/// Moves messages while their rank computes. Otherwise they would move only inside the rank's
/// calls, and a layer may compute for longer than a socket's buffer takes to drain. The thread
/// nearly always sleeps: it polls every millisecond while there is something to move, which takes
/// about a hundredth of the rank's core.
/// \param move  moves what it can without waiting and returns whether there was anything to move;
///              must not throw
void move_again_and_again(const std::stop_token& stop, const std::function<bool()>& move) {
  using namespace std::chrono_literals;
  constexpr auto kPeriod = 1ms, kIdlePeriod = 5ms;
  constexpr int kLooksUntilIdle = 100;  // without anything to move
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  for (int in_vain = 0; !stop.stop_requested(); in_vain = move() ? 0 : in_vain + 1) {
    const auto period = in_vain < kLooksUntilIdle ? kPeriod : kIdlePeriod;
    stopped.wait_for(lock, stop, period, [] { return false; });
  }
}

/// A few ranges hide each other's latency; more would only share the bandwidth.
constexpr size_t kUnderWay = 4;

/// The number of parts of each rank of this node.
std::vector<size_t> parts_on_node(const Communicator& comm, const SumOrder& order) {
  DLFLOW_CHECK(order.num_parts.size() == size_t(comm.size()));
  std::vector<size_t> parts;
  for (const int rank : ranks_of_node(comm)) parts.push_back(order.num_parts[size_t(rank)]);
  return parts;
}

}  // namespace

/// Waits for one range to end; all others move meanwhile.
class Allreduce::UntilDone final : public Wait {
 public:
  UntilDone(Allreduce& all, Ticket ticket) : all_(all), ticket_(ticket) {}

  Progress poll() override {
    const std::lock_guard lock(all_.mutex_);
    const Progress progress = all_.advance(Caller::Owner);
    return all_.is_done(ticket_) ? Progress::Done : progress;
  }
  int peer() const override {
    const std::lock_guard lock(all_.mutex_);
    return all_.is_done(ticket_) ? -1 : all_.ranges_[ticket_.number - all_.first_].task.peer();
  }

 private:
  Allreduce& all_;
  Ticket ticket_;
};

Allreduce::Allreduce(Communicator& comm, size_t num_elements, AllreduceOptions options,
                     Consume consume)
    : comm_(comm),
      plan_(comm, std::move(options)),
      consume_(std::move(consume)),
      memory_(comm, num_elements, plan_.type(), parts_on_node(comm, plan_.order())) {
  DLFLOW_CHECK(!consume_ || plan_.type() == DataType::Float32);
  if (comm.node_size() == comm.size()) return;
  mover_ = std::jthread([this](const std::stop_token& stop) {
    move_again_and_again(stop, [this] { return move(); });
  });
}

Task Allreduce::reduce(const Range& range) {
  if (!consume_) return sum(range);
  if (over_all(range) == Algorithm::SharedMemory) {
    return shared_memory_allreduce(memory_, plan_.order(), range, &consume_);
  }
  return consume_after(sum(range), range);
}

Task Allreduce::consume_after(Task sum, Range range) {
  co_await sum;
  ranges_[uint32_t(range.number - 1 - uint32_t(first_))].summed = true;  // both wrap around
  co_await Until(comm_.rank(), [this] { return caller_ == Caller::Owner; });
  const bool shares = consumes_shares();
  const Range mine = shares ? memory_.share(range, memory_.rank(), memory_.size()) : range;
  consume_(mine.first, values().subspan(mine.first, mine.count));
  if (!shares) co_return;
  memory_.announce(NodeMemory::Stage::Consumed, range);
  co_await memory_.all_consumed(range);
}

Task Allreduce::sum(const Range& range) {
  const Algorithm algorithm = over_all(range);
  if (algorithm == Algorithm::Hierarchical) return reduce_in_two_levels(range);
  if (algorithm == Algorithm::SharedMemory) {
    return shared_memory_allreduce(memory_, plan_.order(), range);
  }
  return reduce_by_messages(algorithm, Link(comm_), plan_.order(), range);
}

Task Allreduce::reduce_in_two_levels(const Range& range) {
  const Topology& topology = plan_.topology();
  const int slices = topology.smallest_node();
  const int channel = comm_.open_channel();
  std::vector<int> peers;  // the ranks that have the same slice
  if (memory_.rank() < slices) {
    for (const auto& node : topology.nodes) peers.push_back(node[size_t(memory_.rank())]);
  }
  const auto between_nodes = [this, channel, peers](Range slice) {
    return reduce_by_messages(plan_.between_nodes(bytes_of(slice)), Link(comm_, peers, channel),
                              plan_.order_of_nodes(), slice);
  };
  return hierarchical_allreduce(memory_, plan_.order_on_node().additions, slices, range,
                                between_nodes);
}

Task Allreduce::reduce_by_messages(Algorithm algorithm, Link link, const SumOrder& order,
                                   const Range& range) {
  const Values sum = numbers().subrange(range.first, range.count);
  if (plan_.by_messages()) return plan_.by_messages()(std::move(link), range.first, sum.floats());
  if (algorithm == Algorithm::Mpi) return mpi_allreduce(comm_, sum);
  if (algorithm != Algorithm::Direct) return message_allreduce(algorithm, std::move(link), sum);
  DirectSum direct{{}, sum, &order, plan_.wire()};
  for (size_t i = 0; i < order.num_parts[size_t(link.rank())]; ++i) {
    direct.parts.push_back(numbers(i).subrange(range.first, range.count));
  }
  return direct_allreduce(std::move(link), std::move(direct));
}

Allreduce::Ticket Allreduce::start(size_t first, size_t count, int64_t urgency) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket{first_ + ranges_.size()};
  const Range range = {first, count, uint32_t(ticket.number + 1), comm_.space().call};
  ranges_.push_back({reduce(range), urgency});
  // The library's sums must begin in the same order on all ranks, regardless of urgency.
  const bool begins_now = over_all(range) == Algorithm::Mpi;
  if (begins_now) (void)ranges_.back().task.poll();
  const auto less_urgent = [&](uint64_t number) {
    return ranges_[number - first_].urgency < urgency;
  };
  waiting_.insert(std::ranges::find_if(waiting_, less_urgent), ticket.number);
  advance(Caller::Owner);
  return ticket;
}

void Allreduce::poll() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) advance(Caller::Owner);  // otherwise the mover is at work
}

/// The mover's poll. The thread that holds the mutex moves everything.
bool Allreduce::move() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return true;
  if (ranges_.empty() || error_) return false;
  advance(Caller::Mover);
  return true;
}

/// Polls all ranges that may move, once each.
///
/// Every range is a coroutine (Task) that waits for a peer now and then. There is no thread for
/// each and no queue of messages: whoever holds the mutex polls the tasks one after the other, and
/// each goes on until it would have to wait. That is the rank itself, inside start(), poll() and
/// wait(), or the mover while the rank computes.
///
/// The order is that of `waiting_`, the most urgent first. Only the first kUnderWay of them are
/// polled, and the oldest range in any case; the others stand still in the middle of whatever they
/// do. Ranks may disagree on which these are, since each sees ranges end at other times. That costs
/// time, but cannot be a deadlock. Take the oldest range that is not done on some rank. There it is
/// the first of all, so that it moves. A peer that it waits for has either done it, and its
/// messages are on their way; or it is the oldest there, too, and moves.
///
/// A range that is summed but not consumed holds no place under way: it sends nothing any more. It
/// is consumed on the owner's thread alone (`caller_`): the update changes weights that the owner
/// may be reading while the mover is at work.
///
/// Shared memory has flags for kRangesAtATime ranges. A range so far behind the oldest would take
/// the flags of one that peers still look at, and waits. Done ranges leave the deque only from the
/// front, so that a ticket's number stays its place.
///
/// A task that throws stops everything, on this rank: peers run into their timeout or are told by
/// the watch. The mover cannot throw to anybody, so the next call of the owner does.
Progress Allreduce::advance(Caller caller) {
  caller_ = caller;
  bool moved = false;
  size_t under_way = 0;
  std::erase_if(waiting_, [&](uint64_t number) {
    // A later range would share its flags with a range that is not done (NodeMemory).
    const bool has_flags = number < first_ + NodeMemory::kRangesAtATime;
    const bool has_turn = under_way < kUnderWay || number == first_;
    if (error_ || !has_flags || !has_turn) return false;
    UnderWay& range = ranges_[number - first_];
    moved = poll(range) != Progress::None || moved;
    under_way += range.summed || range.done ? 0 : 1;
    return range.done;
  });
  while (!ranges_.empty() && ranges_.front().done) {
    ranges_.pop_front();
    ++first_;
  }
  if (error_ && caller == Caller::Owner) std::rethrow_exception(error_);
  return moved ? Progress::Some : Progress::None;
}

Progress Allreduce::poll(UnderWay& range) try {
  const Progress progress = range.task.poll();
  range.done = progress == Progress::Done;
  return progress;
} catch (...) {
  error_ = std::current_exception();
  return Progress::None;
}

bool Allreduce::is_done(Ticket ticket) const {
  return ticket.number < first_ || ranges_[ticket.number - first_].done;
}

bool Allreduce::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return is_done(ticket);
}

void Allreduce::wait(Ticket ticket) {
  if (done(ticket)) return;
  UntilDone until(*this, ticket);
  run(comm_, until);
}

void Allreduce::finish() {
  const auto first_under_way = [this]() -> std::optional<Ticket> {
    const std::lock_guard lock(mutex_);
    return ranges_.empty() ? std::nullopt : std::optional(Ticket{first_});
  };
  while (const auto ticket = first_under_way()) wait(*ticket);
}

void Allreduce::follow(RuleSet rules) {
  DLFLOW_CHECK(ranges_.empty());
  plan_.follow(std::move(rules));
}

}  // namespace dlflow::runtime
