#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

/// Which samples belong together. Any number of ranks agrees on the order of samples, on each
/// global batch and on its leaves, so that a run can go on with another number of ranks.
namespace dlflow::runtime {

/// The order in which epoch `epoch` visits samples 0 .. num_samples-1: a Fisher-Yates shuffle whose
/// random numbers are keyed by (seed, epoch). num_samples below 2^32.
std::vector<uint32_t> epoch_permutation(size_t num_samples, uint64_t seed, uint64_t epoch);

/// The same into `order`, which is as long as there are samples. `progress` grows meanwhile.
void permute(std::span<uint32_t> order, uint64_t seed, uint64_t epoch,
             std::atomic<uint64_t>* progress = nullptr);

/// Leaves of a step, or batches: [first, first + count).
struct IndexRange {
  size_t first = 0, count = 0;
};

/// Positions [first, first + count) of the epoch's order.
struct Share {
  size_t first = 0;
  size_t count = 0;           ///< may be 0 in the last batch
  size_t global_samples = 0;  ///< of the whole batch, over all ranks

  bool operator==(const Share&) const = default;
};

/// The treatment of samples at the end of an epoch that do not fill a batch.
enum class LastBatch { Keep, Drop };

/// The division of an epoch's samples into steps, and of a step's into leaves.
///
/// The leaves of a whole batch have consecutive parts of it, whose sizes differ by one at most.
/// Those of a smaller last batch are filled up to these sizes one after the other, so that no leaf
/// has so few samples that batch normalisation tells little; what is left for the last of them, if
/// that is less than half a leaf, goes to the one before it. The others have none. Or the last
/// batch, too, is spread evenly: for ranks that each make a step of their own.
struct Division {
  size_t num_samples = 0;   ///< of an epoch
  size_t global_batch = 1;  ///< samples per step, over all ranks
  size_t num_leaves = 1;    ///< of a step
  LastBatch last_batch = LastBatch::Keep;
  bool spreads_last = false;

  size_t num_steps() const;
  size_t samples_of(size_t step) const;
  Share leaf(size_t step, size_t leaf) const;

  /// Where leaf `leaf` begins in a step of `samples` samples, at most global_batch.
  size_t first_of_leaf(size_t samples, size_t leaf) const;

  /// No leaf has more samples, and none of a whole batch.
  size_t largest_leaf() const;

  /// The largest of a whole batch; of all samples, if they do not fill one.
  size_t usual_leaf() const;

  /// Of all leaves of an epoch, but the empty ones.
  std::set<size_t> leaf_sizes() const;
};

}  // namespace dlflow::runtime
