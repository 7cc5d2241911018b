#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "base/error.h"
#include "runtime/compress/candidates.h"
#include "runtime/compress/methods.h"
#include "runtime/compress/sparse_message.h"

namespace dlflow::runtime {
namespace {

constexpr int kShift = 20;  // a bin for each exponent and the first three bits of the mantissa
constexpr size_t kBins = size_t(1) << (31 - kShift);

std::array<uint32_t, kBins> histogram_of(std::span<const float> values) {
  // Two histograms: neighbours often share a bin, whose increments would wait for each other.
  std::array<uint32_t, kBins> even{}, odd{};
  size_t i = 0;
  for (; i + 1 < values.size(); i += 2) {
    ++even[key_of(values[i]) >> kShift];
    ++odd[key_of(values[i + 1]) >> kShift];
  }
  if (i < values.size()) ++even[key_of(values[i]) >> kShift];
  for (size_t bin = 0; bin < kBins; ++bin) even[bin] += odd[bin];
  return even;
}

/// The smallest selected key, and how many of its equals are selected.
struct Threshold {
  uint32_t key = 0;
  size_t equals = 0;
};

Threshold threshold_of(std::span<const float> values, size_t count) {
  const auto histogram = histogram_of(values);
  size_t bin = kBins - 1, above = 0;  // above: the count in greater bins
  while (above + histogram[bin] < count) above += histogram[bin--];

  std::vector<uint32_t> keys;
  keys.reserve(histogram[bin]);
  for (const float value : values) {
    if (key_of(value) >> kShift == bin) keys.push_back(key_of(value));
  }
  const auto last = keys.begin() + long(count - above) - 1;
  std::nth_element(keys.begin(), last, keys.end(), std::greater());
  const auto greater = std::count_if(keys.begin(), last, [&](uint32_t key) { return key > *last; });
  return {*last, count - above - size_t(greater)};
}

class TopK final : public SparseMethod {
 public:
  void encode(std::span<const float> values, const Occasion&,
              std::span<std::byte> message) const override {
    const std::span<uint32_t> indices = sparse_view(message).indices;
    if (const auto few = sampled_candidates(values, indices.size())) {
      select_largest(few->values(), indices);
      for (uint32_t& index : indices) index = few->indices()[index];
    } else {
      select_largest(values, indices);
    }
    fill_in(values, message);
  }
};

}  // namespace

void select_largest(std::span<const float> values, std::span<uint32_t> indices) {
  DLFLOW_CHECK(indices.size() <= values.size());
  if (indices.empty()) return;
  Threshold threshold = threshold_of(values, indices.size());
  size_t taken = 0;
  for (size_t i = 0; taken < indices.size(); ++i) {
    const uint32_t key = key_of(values[i]);
    if (key < threshold.key) continue;
    if (key == threshold.key && threshold.equals == 0) continue;
    if (key == threshold.key) --threshold.equals;
    indices[taken++] = uint32_t(i);
  }
}

std::unique_ptr<Compressor> make_top_k() { return std::make_unique<TopK>(); }

}  // namespace dlflow::runtime
