#include "runtime/data/shard.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace dlflow::runtime {

std::vector<uint32_t> epoch_permutation(size_t num_samples, uint64_t seed, uint64_t epoch) {
  DLFLOW_CHECK(num_samples <= UINT32_MAX);
  std::vector<uint32_t> order(num_samples);
  std::iota(order.begin(), order.end(), 0u);
  RandomStream random(seed, RandomUse::Permutation, uint32_t(epoch));
  for (size_t i = num_samples; i > 1; --i)
    std::swap(order[i - 1], order[random.below(uint32_t(i))]);
  return order;
}

size_t steps_per_epoch(size_t num_samples, size_t global_batch) {
  return (num_samples + global_batch - 1) / global_batch;
}

size_t first_of_leaf(size_t samples, size_t leaf, size_t num_leaves) {
  return samples * leaf / num_leaves;
}

Share share_of(size_t num_samples, size_t global_batch, size_t step, size_t leaf,
               size_t num_leaves) {
  const size_t first = step * global_batch;
  DLFLOW_CHECK(first < num_samples);
  const size_t samples = std::min(global_batch, num_samples - first);
  const size_t begin = first_of_leaf(samples, leaf, num_leaves);
  const size_t end = first_of_leaf(samples, leaf + 1, num_leaves);
  return {first + begin, end - begin, samples};
}

}  // namespace dlflow::runtime
