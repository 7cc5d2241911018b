#include "runtime/collectives/shared_memory_allreduce.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/aligned_floats.h"
#include "base/error.h"
#include "runtime/collectives/vector_ops.h"
#include "runtime/comm/messages.h"
#include "runtime/comm/patience.h"

namespace dlflow::runtime {
namespace {

/// Counts only go up and wrap around together.
bool reached(uint32_t count, uint32_t target) { return int32_t(count - target) >= 0; }

}  // namespace

/// How many ranges this rank has announced and how many it has reduced its share of; written by
/// their rank, read by the others. A cache line each: waiting for one does not slow the other.
struct SharedMemoryAllreduce::Flags {
  alignas(64) std::atomic<uint32_t> started{0};
  alignas(64) std::atomic<uint32_t> reduced{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);  // so it works between processes

SharedMemoryAllreduce::SharedMemoryAllreduce(Communicator& comm, size_t num_elements,
                                             SumOrder order)
    : comm_(comm),
      num_elements_(num_elements),
      stride_(whole_lines(num_elements)),
      order_(std::move(order)) {
  DLFLOW_CHECK(comm.node_size() == comm.size());
  const size_t most = std::max<size_t>(1, std::ranges::max(order_.num_parts));
  const auto memory = comm.allocate_shared(sizeof(Flags) + most * stride_ * sizeof(float));
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    // Zeroed memory is what the owner's constructor would make of it, whoever comes first.
    flags_.push_back(std::launder(reinterpret_cast<Flags*>(memory[rank])));
    values_.push_back(reinterpret_cast<float*>(memory[rank] + sizeof(Flags)));
    for (size_t i = 0; i < order_.num_parts[rank]; ++i) {
      parts_.push_back(values_[rank] + i * stride_);
    }
  }
}

std::span<float> SharedMemoryAllreduce::part(size_t index) {
  return {values_[comm_.rank()] + index * stride_, num_elements_};
}

void SharedMemoryAllreduce::start(size_t first, size_t count) {
  started_.push_back({first, count});
  flags_[comm_.rank()]->started.store(++num_started_, std::memory_order_release);
  while (!started_.empty() && all_started(num_reduced_ + 1)) reduce_next();
}

void SharedMemoryAllreduce::finish() {
  while (!started_.empty()) {
    wait_for_all(&Flags::started, num_reduced_ + 1);
    reduce_next();
  }
  wait_for_all(&Flags::reduced, num_reduced_);
}

bool SharedMemoryAllreduce::all_started(uint32_t ranges) const {
  return std::all_of(flags_.begin(), flags_.end(), [&](const Flags* flags) {
    return reached(flags->started.load(std::memory_order_acquire), ranges);
  });
}

/// This rank's share of the oldest range, in whole cache lines, so that no two ranks write to one.
void SharedMemoryAllreduce::reduce_next() {
  const Range range = started_.front();
  started_.pop_front();
  const size_t lines = whole_lines(range.count) / kLineElements;
  const auto boundary = [&](size_t rank) {
    return std::min(range.count, lines * rank / values_.size() * kLineElements);
  };
  const size_t begin = boundary(comm_.rank()), end = boundary(comm_.rank() + 1);
  sum_parts(parts_, order_.additions, values_, range.first + begin, end - begin);
  flags_[comm_.rank()]->reduced.store(++num_reduced_, std::memory_order_release);
}

void SharedMemoryAllreduce::wait_for_all(std::atomic<uint32_t> Flags::*flag,
                                         uint32_t ranges) const {
  Patience patience(comm_.timeout());
  for (size_t rank = 0; rank < flags_.size(); ++rank) {
    while (!reached((flags_[rank]->*flag).load(std::memory_order_acquire), ranges)) {
      if (!patience.wait()) throw_no_answer(comm_.rank(), int(rank), comm_.timeout());
    }
  }
}

}  // namespace dlflow::runtime
