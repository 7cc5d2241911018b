#include "runtime/data/epoch_order.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime/data/shard.h"

namespace dlflow::runtime {

size_t EpochOrder::bytes_for(size_t num_samples, int num_ranks) {
  return (2 + size_t(num_ranks)) * sizeof(Number) + num_samples * sizeof(uint32_t);
}

EpochOrder::EpochOrder(size_t num_samples, uint64_t seed)
    : EpochOrder(num_samples, seed,
                 make_aligned_floats(bytes_for(num_samples, 1) / sizeof(float))) {}

EpochOrder::EpochOrder(size_t num_samples, uint64_t seed, AlignedFloats own)
    : EpochOrder(num_samples, seed, reinterpret_cast<std::byte*>(own.get()), 1, 0) {
  own_ = std::move(own);
}

// Zeroed memory has the value of these atomics after construction, for every rank.
EpochOrder::EpochOrder(size_t num_samples, uint64_t seed, std::byte* memory, int num_ranks,
                       int rank, bool reads)
    : seed_(seed),
      claimed_(std::launder(reinterpret_cast<Number*>(memory))),
      written_(claimed_ + 1),
      first_needed_(claimed_ + 2, size_t(num_ranks)),
      mine_(&first_needed_[size_t(rank)]),
      order_(reinterpret_cast<uint32_t*>(claimed_ + 2 + num_ranks), num_samples) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // works between processes
  if (!reads) mine_->value.store(std::numeric_limits<uint64_t>::max(), std::memory_order_release);
}

std::span<const uint32_t> EpochOrder::enter(uint64_t epoch, std::atomic<uint64_t>* progress) {
  using namespace std::chrono_literals;
  epoch_ = epoch;
  mine_->value.store(epoch, std::memory_order_release);
  for (std::chrono::nanoseconds pause = 10us;
       written_->value.load(std::memory_order_acquire) != epoch + 1;
       pause = std::min<std::chrono::nanoseconds>(2 * pause, 2ms)) {
    if (claim(epoch)) {
      permute(order_, seed_, epoch, progress);
      if (arrange_) arrange_(order_, epoch);
      written_->value.store(epoch + 1, std::memory_order_release);
      break;
    }
    if (stopped_) throw Error(Errc::Unavailable, "the order of samples is no longer needed");
    std::this_thread::sleep_for(pause);
  }
  return order_;
}

void EpochOrder::leave() { mine_->value.store(epoch_ + 1, std::memory_order_release); }

bool EpochOrder::is_needed_before(uint64_t epoch) const {
  return std::ranges::any_of(first_needed_, [&](const Number& needed) {
    return needed.value.load(std::memory_order_acquire) < epoch;
  });
}

/// Whether this rank must write the order of `epoch`. Exactly one rank gets true. A rank that saw
/// that no earlier order is needed, and read who wrote last, cannot be late: no rank reaches a
/// further epoch before this one is written.
bool EpochOrder::claim(uint64_t epoch) {
  if (is_needed_before(epoch)) return false;
  uint64_t last = claimed_->value.load(std::memory_order_relaxed);
  DLFLOW_CHECK(last <= epoch + 1 || first_needed_.size() == 1);  // epochs ascend
  return last != epoch + 1 && claimed_->value.compare_exchange_strong(last, epoch + 1);
}

}  // namespace dlflow::runtime
