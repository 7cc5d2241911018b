#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "runtime/cache/chunk_plan.h"

namespace dlflow::runtime {

/// Two ranks that write to different slots write to no cache line together.
constexpr size_t kCacheLine = 64;

constexpr size_t whole_lines_of(size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Counters that the ranks of a node share.
struct CacheTraffic {
  uint64_t source_bytes = 0;   ///< read from the source
  uint64_t scratch_bytes = 0;  ///< read from scratch
  uint64_t peer_bytes = 0;     ///< received from other nodes
  uint64_t damaged = 0;        ///< chunks that were not what they should be, and were read again
};

/// Chunks in memory that the ranks of a node share: slots of one size, each with the number of the
/// load that filled it last; and how far each rank is. Any thread of any rank calls it.
///
/// Only one load at a time writes to a slot, and a ChunkPlan says which; nobody locks anything. A
/// copy is the same memory.
class ChunkMemory {
 public:
  struct Dimensions {
    size_t num_slots = 0, slot_bytes = 0;
    int num_ranks = 1;
  };

  /// Bytes that it takes, with the books.
  static size_t bytes_for(const Dimensions& dimensions);

  /// \param memory  bytes_for(dimensions) zeroed bytes, 64-byte aligned, the same for all ranks
  ChunkMemory(std::byte* memory, const Dimensions& dimensions);

  std::span<std::byte> slot(size_t index) const {
    return {slots_ + index * stride_, dimensions_.slot_bytes};
  }
  size_t num_slots() const { return dimensions_.num_slots; }

  /// Load `number` of that slot, or a later one, is over.
  bool has(size_t slot, uint64_t number) const {
    return loaded_[slot].load(std::memory_order_acquire) >= number;
  }
  void set_loaded(size_t slot, uint64_t number) {
    loaded_[slot].store(number, std::memory_order_release);
  }

  /// `rank` needs no step below `step` any more, and none at all after kNever. It must say so once
  /// before anything is over.
  void set_done(int rank, uint64_t step) {
    done_[rank].step.store(step, std::memory_order_release);
  }
  /// No rank needs a step below `step` any more.
  bool is_over(uint64_t step) const;

  /// The step of the rank that is farthest, of those that need one; kNever if none does.
  uint64_t farthest_step() const;

  /// A load failed: every rank that waits for it is to throw this. The first one counts.
  void fail(const Error& error);
  /// Throws what failed, if anything did.
  void check() const;

  /// The scratch of this node is not used any more. True for the first who says so.
  bool give_up_scratch() { return !books_->no_scratch.exchange(true); }
  bool uses_scratch() const { return !books_->no_scratch.load(); }

  void count_source(uint64_t bytes) { count(books_->source_bytes, bytes); }
  void count_scratch(uint64_t bytes) { count(books_->scratch_bytes, bytes); }
  void count_peer(uint64_t bytes) { count(books_->peer_bytes, bytes); }
  /// True for the first.
  bool count_damage() { return books_->damaged++ == 0; }
  bool count_lost_peer() { return books_->lost_peers++ == 0; }
  /// Number of chunks that have come to this node, from anywhere.
  std::atomic<uint64_t>& arrivals() { return books_->arrivals; }
  CacheTraffic traffic() const {
    return {books_->source_bytes, books_->scratch_bytes, books_->peer_bytes, books_->damaged};
  }

 private:
  struct alignas(64) Books {
    std::atomic<uint64_t> source_bytes, scratch_bytes, peer_bytes, damaged, lost_peers, arrivals;
    std::atomic<bool> no_scratch;
    std::atomic<int> failure;  // none, being written, to be read
    Errc failure_code;
    std::array<char, 1024> failure_text;
  };
  struct alignas(64) Done {
    std::atomic<uint64_t> step;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // between processes

  void count(std::atomic<uint64_t>& bytes_so_far, uint64_t bytes) {
    bytes_so_far += bytes;
    ++books_->arrivals;
  }

  Dimensions dimensions_;
  size_t stride_;  // from a slot to the next
  Books* books_;
  Done* done_;                     // of each rank
  std::atomic<uint64_t>* loaded_;  // of each slot
  std::byte* slots_;
};

}  // namespace dlflow::runtime
