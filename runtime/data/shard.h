#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

/// The division of samples between ranks. Any number of ranks agrees on the order of samples, on
/// each global batch and on its leaves, so that a run can resume with another number of ranks.
namespace dlflow::runtime {

/// Returns the order in which epoch `epoch` visits samples 0 .. num_samples-1: a Fisher-Yates
/// shuffle whose random numbers are keyed by (seed, epoch). num_samples below 2^32.
std::vector<uint32_t> epoch_permutation(size_t num_samples, uint64_t seed, uint64_t epoch);

/// The same into `order`, whose length is the number of samples. `progress` grows meanwhile.
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
  size_t global_samples = 0;  ///< in the whole batch, over all ranks

  bool operator==(const Share&) const = default;
};

/// The treatment of a last batch with fewer samples.
enum class LastBatch { Keep, Drop };

/// The division of an epoch's samples into steps, and of a step's into leaves.
///
/// The leaves of a whole batch are consecutive parts, whose sizes differ by at most one. A smaller
/// last batch fills leaves of these sizes one after the other, so that no leaf has too few samples
/// for batch normalisation. A remainder of less than half a leaf goes to the leaf before; further
/// leaves are empty. With `spreads_last`, the last batch is spread evenly, too: for ranks that each
/// make a step of their own.
struct Division {
  size_t num_samples = 0;   ///< per epoch
  size_t global_batch = 1;  ///< samples per step, over all ranks
  size_t num_leaves = 1;    ///< per step
  LastBatch last_batch = LastBatch::Keep;
  bool spreads_last = false;

  size_t num_steps() const;
  size_t samples_of(size_t step) const;
  Share leaf(size_t step, size_t leaf) const;

  /// Returns where leaf `leaf` begins in a step of `samples` samples, at most global_batch.
  size_t first_of_leaf(size_t samples, size_t leaf) const;

  /// An upper bound for the samples of any leaf, also in a whole batch.
  size_t largest_leaf() const;

  /// The size of the largest leaf of a whole batch; if no batch is whole, of all samples.
  size_t usual_leaf() const;

  /// The sizes of all leaves of an epoch, without empty ones.
  std::set<size_t> leaf_sizes() const;
};

}  // namespace dlflow::runtime
