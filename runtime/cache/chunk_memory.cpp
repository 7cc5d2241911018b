#include "runtime/cache/chunk_memory.h"

#include <algorithm>
#include <new>
#include <string_view>

namespace dlflow::runtime {
namespace {

constexpr int kNoFailure = 0, kFailing = 1, kFailed = 2;

}  // namespace

size_t ChunkMemory::bytes_for(const Dimensions& dimensions) {
  return sizeof(Books) + size_t(dimensions.num_ranks) * sizeof(Done) +
         whole_lines_of(dimensions.num_slots * sizeof(std::atomic<uint64_t>)) +
         dimensions.num_slots * whole_lines_of(dimensions.slot_bytes);
}

// Zeroed memory is what these atomics are after construction; every rank finds them in it.
ChunkMemory::ChunkMemory(std::byte* memory, const Dimensions& dimensions)
    : dimensions_(dimensions),
      stride_(whole_lines_of(dimensions.slot_bytes)),
      books_(std::launder(reinterpret_cast<Books*>(memory))),
      done_(std::launder(reinterpret_cast<Done*>(memory + sizeof(Books)))),
      loaded_(std::launder(reinterpret_cast<std::atomic<uint64_t>*>(
          memory + sizeof(Books) + size_t(dimensions.num_ranks) * sizeof(Done)))),
      slots_(memory + bytes_for(dimensions) - dimensions.num_slots * stride_) {}

void ChunkMemory::fail(const Error& error) {
  int none = kNoFailure;
  if (!books_->failure.compare_exchange_strong(none, kFailing)) return;
  books_->failure_code = error.code();
  const std::string_view text = error.what();
  text.copy(books_->failure_text.data(), books_->failure_text.size() - 1);
  books_->failure.store(kFailed, std::memory_order_release);
}

void ChunkMemory::check() const {
  if (books_->failure.load(std::memory_order_acquire) != kFailed) return;
  throw Error(books_->failure_code, books_->failure_text.data());
}

uint64_t ChunkMemory::farthest_step() const {
  bool any = false;
  uint64_t farthest = 0;
  for (int rank = 0; rank < dimensions_.num_ranks; ++rank) {
    const uint64_t step = done_[rank].step.load(std::memory_order_acquire);
    if (step == kNever) continue;
    any = true;
    farthest = std::max(farthest, step);
  }
  return any ? farthest : kNever;
}

bool ChunkMemory::is_over(uint64_t step) const {
  for (int rank = 0; rank < dimensions_.num_ranks; ++rank) {
    if (done_[rank].step.load(std::memory_order_acquire) < step) return false;
  }
  return true;
}

}  // namespace dlflow::runtime
