#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Which rank reads which samples. Any number of ranks agrees on the order of samples and on each
/// global batch, so that a run can go on with another number of ranks.
namespace dlflow::runtime {

/// The order in which epoch `epoch` visits samples 0 .. num_samples-1: a Fisher-Yates shuffle whose
/// random numbers are keyed by (seed, epoch). num_samples below 2^32.
std::vector<uint32_t> epoch_permutation(size_t num_samples, uint64_t seed, uint64_t epoch);

/// How many steps visit every sample once; the last batch may be smaller.
size_t steps_per_epoch(size_t num_samples, size_t global_batch);

/// Positions [first, first + count) of the epoch's order.
struct Share {
  size_t first = 0;
  size_t count = 0;           ///< may be 0 in the last batch
  size_t global_samples = 0;  ///< of the whole batch, over all ranks

  bool operator==(const Share&) const = default;
};

/// What `rank` of `num_ranks` computes in `step` of an epoch. Ranks in order have consecutive parts
/// of the global batch, whose sizes differ by one at most.
Share share_of(size_t num_samples, size_t global_batch, size_t step, int rank, int num_ranks);

}  // namespace dlflow::runtime
