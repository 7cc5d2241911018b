#include "runtime/data/shard.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace dlflow::runtime {

std::vector<uint32_t> epoch_permutation(size_t num_samples, uint64_t seed, uint64_t epoch) {
  std::vector<uint32_t> order(num_samples);
  permute(order, seed, epoch);
  return order;
}

void permute(std::span<uint32_t> order, uint64_t seed, uint64_t epoch,
             std::atomic<uint64_t>* progress) {
  constexpr size_t kSamplesPerSign = size_t{1} << 20;  // a tenth of a second between signs of life
  DLFLOW_CHECK(order.size() <= UINT32_MAX);
  std::iota(order.begin(), order.end(), 0u);
  RandomStream random(seed, RandomUse::Permutation, uint32_t(epoch));
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(uint32_t(i))]);
    if (i % kSamplesPerSign == 0 && progress != nullptr) ++*progress;
  }
}

size_t Division::num_steps() const {
  const size_t full = num_samples / global_batch;
  return last_batch == LastBatch::Drop || num_samples % global_batch == 0 ? full : full + 1;
}

size_t Division::samples_of(size_t step) const {
  DLFLOW_CHECK(step < num_steps());
  return std::min(global_batch, num_samples - step * global_batch);
}

size_t Division::first_of_leaf(size_t samples, size_t leaf) const {
  const auto usual_first = [this](size_t l) { return global_batch * l / num_leaves; };
  if (spreads_last || samples == 0) return samples * leaf / num_leaves;
  // The last leaf that begins before `samples`, or the one before it if that would be too small.
  size_t last = (samples * num_leaves + global_batch - 1) / global_batch - 1;
  const size_t rest = samples - usual_first(last);
  if (last > 0 && 2 * rest < usual_first(last + 1) - usual_first(last)) --last;
  return leaf > last ? samples : usual_first(leaf);
}

Share Division::leaf(size_t step, size_t leaf) const {
  const size_t samples = samples_of(step);
  const size_t begin = first_of_leaf(samples, leaf), end = first_of_leaf(samples, leaf + 1);
  return {step * global_batch + begin, end - begin, samples};
}

size_t Division::usual_leaf() const {
  return std::min((global_batch + num_leaves - 1) / num_leaves, num_samples);
}

size_t Division::largest_leaf() const {
  const size_t usual = usual_leaf();
  const bool adds_rest = num_leaves > 1 && !spreads_last && usual > 0;
  return adds_rest ? std::min(usual + (usual - 1) / 2, num_samples) : usual;
}

std::set<size_t> Division::leaf_sizes() const {
  std::set<size_t> sizes;
  const size_t steps = num_steps();
  if (steps == 0) return sizes;
  for (const size_t step : {size_t{0}, steps - 1}) {
    for (size_t l = 0; l < num_leaves; ++l) sizes.insert(leaf(step, l).count);
  }
  sizes.erase(0);
  return sizes;
}

}  // namespace dlflow::runtime
