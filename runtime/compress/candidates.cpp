#include "runtime/compress/candidates.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kLine = 16;  // a cache line

/// The desired number of hits in a sample: the estimated count then deviates by 7 %, if neighbours
/// are dissimilar.
constexpr size_t kHits = 192;
/// The sample's threshold aims at 1.5 times the wanted count; more than three times is too many.
constexpr size_t kMostPerWanted = 3;
/// A sample reads at most one in this many lines.
constexpr size_t kLeastStride = 16;
/// The count is checked after each block of this size.
constexpr size_t kStretch = 1024;

/// Collects the numbers from a threshold on, a group of lanes at a time, most of which hold none;
/// the caller handles the rest behind the last whole group. Returns the number collected.
DLFLOW_VECTOR_CLONES
size_t collect_lanes(uint32_t threshold, std::span<const float> values, uint32_t first_index,
                     float* found, uint32_t* indices) {
  size_t taken = 0;
  for (size_t first = 0; first + kLine <= values.size(); first += kLine) {
    uint32_t any = 0;
    for (size_t k = 0; k < kLine; ++k) {
      any |= key_of(values[first + k]) >= threshold ? 1 : 0;
    }
    if (any == 0) continue;
    for (size_t k = 0; k < kLine; ++k) {
      found[taken] = values[first + k];
      indices[taken] = first_index + uint32_t(first + k);
      taken += key_of(values[first + k]) >= threshold ? 1 : 0;
    }
  }
  return taken;
}

/// Returns the keys of one line in every `stride`. An odd stride reaches all columns of a matrix,
/// whose number is usually even.
std::vector<uint32_t> sample_of(std::span<const float> values, size_t stride) {
  std::vector<uint32_t> keys;
  keys.reserve(values.size() / stride + kLine);
  for (size_t first = 0; first + kLine <= values.size(); first += kLine * stride) {
    for (const float value : values.subspan(first, kLine)) keys.push_back(key_of(value));
  }
  return keys;
}

}  // namespace

void Candidates::collect(float threshold, std::span<const float> values, size_t first) {
  const uint32_t key = key_of(threshold);
  size_ +=
      collect_lanes(key, values, uint32_t(first), values_.get() + size_, indices_.get() + size_);
  for (size_t i = values.size() / kLine * kLine; i < values.size(); ++i) {
    if (key_of(values[i]) < key) continue;
    values_[size_] = values[i];
    indices_[size_++] = uint32_t(first + i);
  }
}

std::optional<Candidates> sampled_candidates(std::span<const float> values, size_t wanted) {
  const size_t stride = (wanted / kHits) | 1;
  if (stride < kLeastStride) return std::nullopt;
  std::vector<uint32_t> keys = sample_of(values, stride);
  const auto last = keys.begin() + long(std::min(wanted * 3 / 2 / stride, keys.size() - 1));
  std::nth_element(keys.begin(), last, keys.end(), std::greater());
  const auto threshold = std::bit_cast<float>(*last);

  const size_t most = std::min(kMostPerWanted * wanted, values.size());
  Candidates found(most + kStretch);
  for (size_t first = 0; first < values.size() && found.size() <= most; first += kStretch) {
    found.collect(threshold, values.subspan(first, std::min(kStretch, values.size() - first)),
                  first);
  }
  if (found.size() < wanted || found.size() > most) return std::nullopt;
  return found;
}

}  // namespace dlflow::runtime
