#include "runtime/data/class_sampler.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/random.h"

namespace dlflow::runtime {
void require_shares(const Dataset& dataset, size_t count) {
  if (dataset.num_targets > 0) {
    throw Error(Errc::InvalidInput,
                "with: 'sampling' needs classes, but the training data have targets");
  }
  if (dataset.has_masks) {
    throw Error(Errc::InvalidInput,
                "with: 'sampling' needs one class per sample, but the training data have a class "
                "per pixel; use 'class_weights' to weight the classes");
  }
  if (count == 0 || count == dataset.num_classes) return;
  throw Error(Errc::InvalidInput, "with: 'sampling' has " + std::to_string(count) +
                                      " shares for the " + std::to_string(dataset.num_classes) +
                                      " classes of the training data");
}

ClassSampler::ClassSampler(const Dataset& dataset, std::span<const float> shares, uint64_t seed)
    : seed_(seed), samples_(dataset.size()), first_(dataset.num_classes + 1) {
  require_shares(dataset, shares.size());
  const std::vector<uint32_t> labels = dataset.labels.copy();
  for (const uint32_t label : labels) {
    DLFLOW_CHECK(label < dataset.num_classes);  // checked when the data was opened
    ++first_[label + 1];
  }
  for (size_t c = 0; c < dataset.num_classes; ++c) first_[c + 1] += first_[c];
  std::vector<size_t> next = first_;
  for (size_t i = 0; i < labels.size(); ++i) samples_[next[labels[i]]++] = uint32_t(i);
  float sum = 0;
  for (size_t c = 0; c < dataset.num_classes; ++c) {
    const bool is_empty = first_[c] == first_[c + 1];
    if (is_empty && !shares.empty()) {
      throw Error(Errc::InvalidInput, "with: 'sampling' has a share for class " +
                                          std::to_string(c) + ", which has no samples");
    }
    if (!is_empty) sum += shares.empty() ? 1 : shares[c];
    up_to_.push_back(sum);
  }
}

uint32_t ClassSampler::draw(uint64_t epoch, size_t place) const {
  RandomStream random(seed_, RandomUse::Sampling, uint32_t(epoch), uint32_t(place));
  const float at = random.uniform() * up_to_.back();  // less than the sum, except for rounding
  const auto found = std::ranges::upper_bound(up_to_, at);
  const auto last = std::ranges::lower_bound(up_to_, up_to_.back());  // the last class with samples
  const auto drawn = size_t(std::min(found, last) - up_to_.begin());
  const size_t count = first_[drawn + 1] - first_[drawn];
  return samples_[first_[drawn] + random.below(uint32_t(count))];
}

}  // namespace dlflow::runtime
