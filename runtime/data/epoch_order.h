#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/aligned_floats.h"

namespace dlflow::runtime {

/// The order in which an epoch visits samples (epoch_permutation), once for all ranks of a node:
/// the first that comes to an epoch works it out, in memory that all read.
///
/// There is room for one order. A rank says when it needs an epoch's order no more; the next one is
/// written once all have said so, and whoever is ahead waits for them. They cannot wait in a
/// circle: a rank needs the order of an epoch until it has made its last batch, for which it waits
/// for nothing but batches of this epoch; and whoever waits for the next order has made all of
/// those.
class EpochOrder {
 public:
  /// Of one rank alone.
  EpochOrder(size_t num_samples, uint64_t seed);

  /// Of one of the ranks that share `memory`, bytes_for(...) zeroed bytes, 64-byte aligned, that
  /// outlive this. They go through the same epochs, which ascend; one that `reads` none keeps
  /// nobody waiting.
  EpochOrder(size_t num_samples, uint64_t seed, std::byte* memory, int num_ranks, int rank,
             bool reads = true);
  static size_t bytes_for(size_t num_samples, int num_ranks);

  /// From now on `arrange` changes the random order of an epoch, in the same way on all ranks.
  void arrange_by(std::function<void(std::span<uint32_t>, uint64_t epoch)> arrange) {
    arrange_ = std::move(arrange);
  }

  /// The order of `epoch`, valid until leave(). `progress` grows while one is worked out that
  /// others wait for. Throws Error{Unavailable} if it was stopped.
  std::span<const uint32_t> enter(uint64_t epoch, std::atomic<uint64_t>* progress = nullptr);
  void leave();

  /// Ends all waits, also later ones. Any thread.
  void stop() { stopped_ = true; }

 private:
  struct alignas(kCacheLineBytes) Number {
    std::atomic<uint64_t> value;
  };
  EpochOrder(size_t num_samples, uint64_t seed, AlignedFloats own);

  bool is_needed_before(uint64_t epoch) const;
  bool claim(uint64_t epoch);

  uint64_t seed_;
  std::function<void(std::span<uint32_t>, uint64_t)> arrange_;  // or none
  AlignedFloats own_;                                           // memory of one rank alone
  Number* claimed_;                 // 1 + the epoch whose order a rank writes, or wrote last
  Number* written_;                 // 1 + the epoch whose order is there
  std::span<Number> first_needed_;  // epoch, of each rank
  Number* mine_;                    // of those
  std::span<uint32_t> order_;
  uint64_t epoch_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace dlflow::runtime
