#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Which samples belong together. Any number of ranks agrees on the order of samples, on each
/// global batch and on its leaves, so that a run can go on with another number of ranks.
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

/// Where leaf `leaf` of `num_leaves` begins among the `samples` of a step.
size_t first_of_leaf(size_t samples, size_t leaf, size_t num_leaves);

/// Leaf `leaf` of the `num_leaves` into which the global batch of `step` is divided: consecutive
/// parts, whose sizes differ by one at most.
Share share_of(size_t num_samples, size_t global_batch, size_t step, size_t leaf,
               size_t num_leaves);

}  // namespace dlflow::runtime
