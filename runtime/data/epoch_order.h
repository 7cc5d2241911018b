#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/aligned_floats.h"

namespace dlflow::runtime {

/// The order in which an epoch visits samples (epoch_permutation), computed once per node: the
/// first rank that enters an epoch writes it to memory that all ranks of the node read.
///
/// There is memory for one order. Each rank reports when it no longer needs an epoch's order; the
/// next is written once all have, and ranks that are ahead wait for it. This cannot deadlock: a
/// rank needs the order of an epoch until it has made its last batch, for which it waits only for
/// batches of this epoch; and a rank that waits for the next order has made all of those.
class EpochOrder {
 public:
  /// For a single rank.
  EpochOrder(size_t num_samples, uint64_t seed);

  /// For one of the ranks that share `memory`: bytes_for(...) zeroed bytes, 64-byte aligned, which
  /// must outlive this. All pass the same ascending epochs; no rank waits for one with `reads`
  /// false.
  EpochOrder(size_t num_samples, uint64_t seed, std::byte* memory, int num_ranks, int rank,
             bool reads = true);
  static size_t bytes_for(size_t num_samples, int num_ranks);

  /// From now on, `arrange` changes each random order; it must do the same on all ranks.
  void arrange_by(std::function<void(std::span<uint32_t>, uint64_t epoch)> arrange) {
    arrange_ = std::move(arrange);
  }

  /// Returns the order of `epoch`, valid until leave(). `progress` grows while this rank computes
  /// an order that others wait for. Throws Error{Unavailable} after stop().
  std::span<const uint32_t> enter(uint64_t epoch, std::atomic<uint64_t>* progress = nullptr);
  void leave();

  /// Ends all waits, present and future. May be called by any thread.
  void stop() { stopped_ = true; }

 private:
  struct alignas(kCacheLineBytes) Number {
    std::atomic<uint64_t> value;
  };
  EpochOrder(size_t num_samples, uint64_t seed, AlignedFloats own);

  bool is_needed_before(uint64_t epoch) const;
  bool claim(uint64_t epoch);

  uint64_t seed_;
  std::function<void(std::span<uint32_t>, uint64_t)> arrange_;  // may be empty
  AlignedFloats own_;                                           // memory if no other rank shares it
  Number* claimed_;  // 1 + the epoch whose order is being written or was written last
  Number* written_;  // 1 + the epoch whose order is complete
  std::span<Number> first_needed_;  // first epoch that each rank still needs
  Number* mine_;                    // this rank's entry of it
  std::span<uint32_t> order_;
  uint64_t epoch_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace dlflow::runtime
