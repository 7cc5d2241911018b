#include "runtime/compress/ms_top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "base/vector_clones.h"
#include "runtime/compress/sparse_message.h"
#include "runtime/compress/top_k.h"

namespace dlflow::runtime {
namespace {

/// On Gaussian, Laplace and Student-3 numbers 15 find 99.95 % of the largest, 20 all of them.
constexpr int kSearches = 20;

DLFLOW_VECTOR_CLONES
size_t count_from(float threshold, const float* values, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) found += std::fabs(values[i]) >= threshold ? 1 : 0;
  return found;
}

/// Of all values without their signs; NaN and infinity are larger than all else.
DLFLOW_VECTOR_CLONES
uint32_t greatest_bits(const float* values, size_t count) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    greatest = std::max(greatest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  }
  return greatest;
}

DLFLOW_VECTOR_CLONES
double sum_of_magnitudes(const float* values, size_t count) {
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += double(std::fabs(values[i + lane]));
  }
  for (; i < count; ++i) sums[0] += double(std::fabs(values[i]));
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

/// All from `sure` on are taken: at most as many as are wanted; those from `likely` on are more.
struct Thresholds {
  float sure = std::numeric_limits<float>::infinity();
  float likely = 0;
  size_t num_sure = 0;    // from `sure` on
  size_t num_likely = 0;  // between the two
};

/// Between two magnitudes, by their bits: as many floats lie below as above. The middle of the
/// numbers themselves would stay near `high` where one gradient is larger than all others by orders
/// of magnitude.
float middle_of(float low, float high) {
  const uint32_t below = std::bit_cast<uint32_t>(low), above = std::bit_cast<uint32_t>(high);
  return std::bit_cast<float>(below + (above - below) / 2);
}

Thresholds search(std::span<const float> values, float greatest, size_t wanted) {
  const auto count = [&](float t) { return count_from(t, values.data(), values.size()); };
  Thresholds found;
  const float mean = float(sum_of_magnitudes(values.data(), values.size()) / double(values.size()));
  float low = mean, high = greatest;
  size_t from_low = count(mean);
  if (from_low < wanted) {
    low = 0;
    high = mean;
    from_low = values.size();
  }
  for (int i = 0; i < kSearches && found.num_sure < wanted && from_low > wanted; ++i) {
    const float middle = middle_of(low, high);
    const size_t from_middle = count(middle);
    if (from_middle > wanted) {
      low = middle;
      from_low = from_middle;
    } else {
      high = middle;
      found.sure = middle;
      found.num_sure = from_middle;
    }
  }
  if (found.num_sure == 0) {  // every middle was too low
    found.num_sure = count(greatest);
    if (found.num_sure > wanted) found.num_sure = 0;
    if (found.num_sure > 0) found.sure = greatest;
  }
  found.likely = low;
  found.num_likely = from_low - found.num_sure;
  return found;
}

/// Those from `sure` on, and of the likely ones a run that begins with number `offset`.
void take(std::span<const float> values, const Thresholds& from, size_t offset,
          std::span<uint32_t> indices) {
  size_t taken = 0, likely = 0;
  const size_t end = offset + indices.size() - from.num_sure;
  for (size_t i = 0; taken < indices.size(); ++i) {
    const float magnitude = std::fabs(values[i]);
    if (magnitude < from.likely) continue;
    if (magnitude < from.sure) {
      const size_t number = likely++;
      if (number < offset || number >= end) continue;
    }
    indices[taken++] = uint32_t(i);
  }
}

}  // namespace

size_t MsTopK::message_bytes(size_t count, const Occasion& occasion) const {
  return sparse_bytes(num_sent(count, occasion.density));
}

void MsTopK::encode(std::span<const float> values, const Occasion& occasion,
                    std::span<std::byte> message) const {
  const std::span<uint32_t> indices = sparse_view(message).indices;
  const float greatest = std::bit_cast<float>(greatest_bits(values.data(), values.size()));
  if (indices.empty() || !std::isfinite(greatest)) {
    select_largest(values, indices);
  } else {
    const Thresholds found = search(values, greatest, indices.size());
    const size_t spare = found.num_likely - (indices.size() - found.num_sure);
    RandomStream random(occasion.seed, RandomUse::Compression, uint32_t(occasion.step),
                        uint32_t(occasion.first));
    take(values, found, random.below(uint32_t(spare) + 1), indices);
  }
  fill_in(values, message);
}

void MsTopK::add(std::span<const std::byte> message, const Occasion&, float sign,
                 std::span<float> into) const {
  add_sparse(message, sign, into);
}

}  // namespace dlflow::runtime
