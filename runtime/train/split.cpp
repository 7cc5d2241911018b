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

/// The last `count` samples, ascending, in memory that the ranks of this node have in common.
std::span<const uint32_t> last_samples(Communicator& comm, size_t num_samples, size_t count) {
  const bool first = comm.node_rank() == 0;
  std::byte* const memory = comm.allocate_shared(first ? count * sizeof(uint32_t) : 0)[0];
  const std::span samples(reinterpret_cast<uint32_t*>(memory), count);
  if (first) std::iota(samples.begin(), samples.end(), uint32_t(num_samples - count));
  comm.barrier();
  return samples;
}

/// The samples that are held out, ascending, where the ranks of this node have them in common: the
/// first of them chooses.
std::span<const uint32_t> choose(Communicator& comm, size_t num_samples, size_t validation,
                                 uint64_t seed) {
  // An epoch that training never comes to: its order is independent of those that are trained on.
  constexpr uint64_t kNoEpoch = std::numeric_limits<uint32_t>::max();
  const bool first = comm.node_rank() == 0;
  std::byte* const memory = comm.allocate_shared(first ? validation * sizeof(uint32_t) : 0)[0];
  const std::span chosen(reinterpret_cast<uint32_t*>(memory), validation);
  if (first) {
    const std::vector<uint32_t> order = epoch_permutation(num_samples, seed, kNoEpoch);
    std::copy_n(order.begin(), validation, chosen.begin());
    std::ranges::sort(chosen);
  }
  comm.barrier();
  return chosen;
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
