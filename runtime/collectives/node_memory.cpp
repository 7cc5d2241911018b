#include "runtime/collectives/node_memory.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/aligned_floats.h"
#include "base/error.h"

namespace dlflow::runtime {
namespace {

size_t num_lines(size_t num_elements, DataType type) {
  return (num_elements * size_of(type) + kCacheLineBytes - 1) / kCacheLineBytes;
}

}  // namespace

/// Entry [number % kRangesAtATime] is the last range of that remainder that this rank has
/// announced. Written by the owning rank, read by the others.
struct NodeMemory::Flags {
  alignas(kCacheLineBytes) std::atomic<uint32_t> announced[3][kRangesAtATime];
  std::atomic<uint32_t> calls[kRangesAtATime];  // of started ranges

  std::atomic<uint32_t>& of(Stage stage, uint32_t number) {
    return announced[size_t(stage)][number % kRangesAtATime];
  }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);  // so that it works between processes

NodeMemory::NodeMemory(Communicator& comm, size_t num_elements, DataType type,
                       std::span<const size_t> parts_of_ranks)
    : rank_(comm.node_rank()),
      world_ranks_(ranks_of_node(comm)),
      num_elements_(num_elements),
      type_(type),
      stride_bytes_(num_lines(num_elements, type) * kCacheLineBytes) {
  DLFLOW_CHECK(parts_of_ranks.size() == size_t(comm.node_size()));
  const size_t most = std::max<size_t>(1, std::ranges::max(parts_of_ranks));
  const auto memory = comm.allocate_shared(sizeof(Flags) + most * stride_bytes_);
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    // Zeroed memory equals what the constructor would write, so that no rank must initialize it.
    flags_.push_back(std::launder(reinterpret_cast<Flags*>(memory[rank])));
    memory_.push_back(memory[rank] + sizeof(Flags));
    values_.insert(int(rank) == rank_ ? values_.begin() : values_.end(), part_of(int(rank), 0));
    for (size_t i = 0; i < parts_of_ranks[rank]; ++i) parts_.push_back(part_of(int(rank), i));
  }
}

Range NodeMemory::share(const Range& range, int index, int shares) const {
  const size_t lines = num_lines(range.count, type_), on_line = kCacheLineBytes / size_of(type_);
  const auto boundary = [&](int i) {
    return std::min(range.count, lines * size_t(i) / size_t(shares) * on_line);
  };
  return {range.first + boundary(index), boundary(index + 1) - boundary(index), range.number,
          range.call};
}

void NodeMemory::announce(Stage stage, const Range& range) {
  if (stage == Stage::Started) {
    flags_[size_t(rank_)]->calls[range.number % kRangesAtATime].store(range.call,
                                                                      std::memory_order_relaxed);
  }
  flags_[size_t(rank_)]->of(stage, range.number).store(range.number, std::memory_order_release);
}

Progress NodeMemory::Announced::poll() {
  const int before = missing_;
  for (; missing_ < memory_.size(); ++missing_) {
    if (!is_waited_for(missing_)) continue;
    Flags& flags = *memory_.flags_[size_t(missing_)];
    const auto& call = flags.calls[range_.number % kRangesAtATime];
    // Numbers only increase, and wrap around together.
    if (int32_t(flags.of(stage_, range_.number).load(std::memory_order_acquire) - range_.number) <
            0 ||
        (stage_ == Stage::Started && call.load(std::memory_order_relaxed) != range_.call)) {
      return missing_ > before ? Progress::Some : Progress::None;
    }
  }
  return Progress::Done;
}

}  // namespace dlflow::runtime
