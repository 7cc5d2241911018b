#include "runtime/train/split.h"

#include <limits>

#include "base/error.h"
#include "runtime/data/shard.h"

namespace dlflow::runtime {
namespace {

/// The samples whose `chosen` equals `wanted`.
Dataset select(const Dataset& dataset, const std::vector<bool>& chosen, bool wanted) {
  Dataset part{dataset.shape, dataset.num_classes, {}, {}};
  std::vector<uint32_t> samples;
  for (uint32_t i = 0; i < dataset.size(); ++i) {
    if (chosen[i] != wanted) continue;
    samples.push_back(i);
    part.labels.push_back(dataset.labels[i]);
  }
  std::visit([&](const auto& images) { part.pixels = images.select(samples); }, dataset.pixels);
  return part;
}

}  // namespace

TrainingData split_off_validation(Dataset dataset, size_t validation, uint64_t seed) {
  if (validation >= dataset.size()) {
    throw Error(Errc::InvalidInput, "with: 'validation' holds out " + std::to_string(validation) +
                                        " of " + std::to_string(dataset.size()) +
                                        " samples; nothing is left to train on");
  }
  if (validation == 0) return {std::move(dataset), {}};
  // An epoch that training never comes to: its order is independent of those that are trained on.
  constexpr uint64_t kNoEpoch = std::numeric_limits<uint32_t>::max();
  const std::vector<uint32_t> order = epoch_permutation(dataset.size(), seed, kNoEpoch);
  std::vector<bool> chosen(dataset.size());
  for (size_t i = 0; i < validation; ++i) chosen[order[i]] = true;
  return {select(dataset, chosen, false), select(dataset, chosen, true)};
}

}  // namespace dlflow::runtime
