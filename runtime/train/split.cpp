#include "runtime/train/split.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.h"
#include "runtime/data/shard.h"
#include "runtime/fit/fit.h"

namespace dlflow::runtime {
namespace {

/// Returns `count` ascending samples in memory that the ranks of this node share; the first of them
/// calls `fill`.
template <typename Fill>
std::span<const uint32_t> shared_samples(Communicator& comm, size_t count, Fill fill) {
  const bool first = comm.node_rank() == 0;
  std::byte* const memory = comm.allocate_shared(first ? count * sizeof(uint32_t) : 0)[0];
  const std::span samples(reinterpret_cast<uint32_t*>(memory), count);
  if (first) fill(samples);
  comm.barrier();
  return samples;
}

std::span<const uint32_t> last_samples(Communicator& comm, size_t num_samples, size_t count) {
  return shared_samples(comm, count, [&](std::span<uint32_t> samples) {
    std::iota(samples.begin(), samples.end(), uint32_t(num_samples - count));
  });
}

/// Returns the samples to hold out.
std::span<const uint32_t> choose(Communicator& comm, size_t num_samples, size_t validation,
                                 uint64_t seed) {
  // An epoch that training never reaches, so that the order is independent of all training epochs.
  constexpr uint64_t kNoEpoch = std::numeric_limits<uint32_t>::max();
  return shared_samples(comm, validation, [&](std::span<uint32_t> chosen) {
    const std::vector<uint32_t> order = epoch_permutation(num_samples, seed, kNoEpoch);
    std::copy_n(order.begin(), validation, chosen.begin());
    std::ranges::sort(chosen);
  });
}

}  // namespace

TrainingData split_off_validation(Communicator& comm, Dataset dataset, size_t validation,
                                  uint64_t seed) {
  if (const size_t own = dataset.num_validation; own > 0) {
    DLFLOW_CHECK(validation == 0 && own < dataset.size());
    const SampleList last = {last_samples(comm, dataset.size(), own), nullptr};
    return {dataset.select(Subset::all_but(last, dataset.size())),
            dataset.select(Subset::only(last))};
  }
  require_training_samples(dataset.size(), validation);
  if (validation == 0) return {std::move(dataset), {}};
  const SampleList held_out = {choose(comm, dataset.size(), validation, seed), nullptr};
  return {dataset.select(Subset::all_but(held_out, dataset.size())),
          dataset.select(Subset::only(held_out))};
}

}  // namespace dlflow::runtime
