#include "runtime/collectives/allreduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/collectives/direct_allreduce.h"
#include "runtime/collectives/ring_allreduce.h"
#include "runtime/collectives/shared_memory_allreduce.h"

namespace dlflow::runtime {
namespace {

/// Of the ranks of this node.
std::vector<size_t> parts_on_node(const Communicator& comm, const SumOrder& order) {
  DLFLOW_CHECK(order.num_parts.size() == size_t(comm.size()));
  const std::span<const int> nodes = comm.nodes();
  std::vector<size_t> parts;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] == nodes[size_t(comm.rank())]) parts.push_back(order.num_parts[rank]);
  }
  return parts;
}

}  // namespace

/// The end of one range; all others move meanwhile.
class Allreduce::UntilDone final : public Wait {
 public:
  UntilDone(Allreduce& all, Ticket ticket) : all_(all), ticket_(ticket) {}

  Progress poll() override {
    const Progress progress = all_.advance();
    return all_.done(ticket_) ? Progress::Done : progress;
  }
  int peer() const override { return all_.ranges_[ticket_.number - all_.first_].task.peer(); }

 private:
  Allreduce& all_;
  Ticket ticket_;
};

Allreduce::Allreduce(Communicator& comm, size_t num_elements, AllreduceOptions options)
    : comm_(comm),
      ordered_(options.order.has_value()),
      order_(ordered_ ? *std::move(options.order) : sum_in_rank_order(comm.size())),
      consume_(std::move(options.consume)),
      memory_(comm, num_elements, parts_on_node(comm, order_)) {}

Task Allreduce::reduce(const Range& range) {
  if (consumes_shares()) {
    return consume_ ? shared_memory_reduce(memory_, order_, range, consume_)
                    : shared_memory_allreduce(memory_, order_, range);
  }
  Task sum = reduce_by_messages(range);
  return consume_ ? consume_after(std::move(sum), range) : std::move(sum);
}

Task Allreduce::consume_after(Task sum, Range range) {
  co_await sum;
  consume_(range.first, values().subspan(range.first, range.count));
}

Task Allreduce::reduce_by_messages(const Range& range) {
  if (!ordered_) return ring_allreduce(Link(comm_), values().subspan(range.first, range.count));
  DirectSum sum;
  for (size_t i = 0; i < order_.num_parts[size_t(comm_.rank())]; ++i) {
    sum.parts.push_back(part(i).subspan(range.first, range.count));
  }
  sum.result = values().subspan(range.first, range.count);
  sum.order = &order_;
  return direct_allreduce(Link(comm_), std::move(sum));
}

Allreduce::Ticket Allreduce::start(size_t first, size_t count) {
  const Ticket ticket{first_ + ranges_.size()};
  ranges_.push_back({reduce({first, count, uint32_t(ticket.number + 1)})});
  advance();
  return ticket;
}

Progress Allreduce::advance() {
  bool moved = false;
  const size_t at_a_time = std::min<size_t>(ranges_.size(), NodeMemory::kRangesAtATime);
  for (size_t i = 0; i < at_a_time; ++i) {
    UnderWay& range = ranges_[i];
    if (range.done) continue;
    const Progress progress = range.task.poll();
    range.done = progress == Progress::Done;
    moved = moved || progress != Progress::None;
  }
  while (!ranges_.empty() && ranges_.front().done) {
    ranges_.pop_front();
    ++first_;
  }
  return moved ? Progress::Some : Progress::None;
}

bool Allreduce::done(Ticket ticket) const {
  return ticket.number < first_ || ranges_[ticket.number - first_].done;
}

void Allreduce::wait(Ticket ticket) {
  if (done(ticket)) return;
  UntilDone until(*this, ticket);
  run(comm_, until);
}

void Allreduce::finish() {
  while (!ranges_.empty()) wait({first_});
}

}  // namespace dlflow::runtime
