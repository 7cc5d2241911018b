#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "base/vector_clones.h"
#include "runtime/compress/candidates.h"
#include "runtime/compress/methods.h"
#include "runtime/compress/sparse_message.h"

namespace dlflow::runtime {
namespace {

/// With Gaussian, Laplace and Student-3 numbers, 15 searches find 99.95 % of the largest, 20 all.
constexpr int kSearches = 20;
/// Once at most this many times the wanted numbers remain, they are collected: reading all others
/// again in each search takes longer.
constexpr size_t kFew = 2;

DLFLOW_VECTOR_CLONES
size_t count_from(float threshold, const float* values, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) found += std::fabs(values[i]) >= threshold ? 1 : 0;
  return found;
}

/// The largest magnitude as bits; NaN and infinity exceed all finite numbers.
DLFLOW_VECTOR_CLONES
uint32_t greatest_bits(const float* values, size_t count) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) greatest = std::max(greatest, key_of(values[i]));
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

/// Numbers from `sure` on are at most as many as wanted, and all taken; from `likely` on, more.
struct Thresholds {
  float sure = std::numeric_limits<float>::infinity();
  float likely = 0;
  size_t num_sure = 0;    // from `sure` on
  size_t num_likely = 0;  // between the two
};

/// Bisects two magnitudes by their bits, so that as many floats lie below as above. The arithmetic
/// mean would stay near `high` if one gradient exceeds all others by orders of magnitude.
float middle_of(float low, float high) {
  const uint32_t below = std::bit_cast<uint32_t>(low), above = std::bit_cast<uint32_t>(high);
  return std::bit_cast<float>(below + (above - below) / 2);
}

/// Searches for a threshold between two magnitudes.
class Search {
 public:
  /// \param num_from_low  the number of values from `low` on; none exceeds `high`
  Search(float low, size_t num_from_low, float high, size_t wanted)
      : greatest_(high), wanted_(wanted), low_(low), high_(high), from_low_(num_from_low) {}

  float low() const { return low_; }
  size_t from_low() const { return from_low_; }

  /// Raises low() until at most `enough` values reach it. \param values  includes all from low() on
  void narrow(std::span<const float> values, size_t enough) {
    for (; left_ > 0 && found_.num_sure < wanted_ && from_low_ > enough; --left_) {
      const float middle = middle_of(low_, high_);
      const size_t from_middle = count_from(middle, values.data(), values.size());
      if (from_middle > wanted_) {
        low_ = middle;
        from_low_ = from_middle;
      } else {
        high_ = middle;
        found_.sure = middle;
        found_.num_sure = from_middle;
      }
    }
  }

  Thresholds finish(std::span<const float> values) {
    if (found_.num_sure == 0) {  // every middle was too low
      const size_t num_greatest = count_from(greatest_, values.data(), values.size());
      if (num_greatest > 0 && num_greatest <= wanted_) {
        found_.num_sure = num_greatest;
        found_.sure = greatest_;
      }
    }
    found_.likely = low_;
    found_.num_likely = from_low_ - found_.num_sure;
    return found_;
  }

 private:
  float greatest_;
  size_t wanted_;
  float low_, high_;
  size_t from_low_;
  int left_ = kSearches;
  Thresholds found_;
};

/// Requires finite numbers.
Search search_from_mean(std::span<const float> values, float greatest, size_t wanted) {
  const double sum = sum_of_magnitudes(values.data(), values.size());
  const float mean = float(sum / double(values.size()));
  const size_t from_mean = count_from(mean, values.data(), values.size());
  if (from_mean >= wanted) return {mean, from_mean, greatest, wanted};
  return {0, values.size(), mean, wanted};
}

float greatest_of(std::span<const float> values) {
  return std::bit_cast<float>(greatest_bits(values.data(), values.size()));
}

float least_of(std::span<const float> values) {
  float least = std::numeric_limits<float>::infinity();
  for (const float value : values) least = std::min(least, std::fabs(value));
  return least;
}

/// The `wanted` largest among few others. Nothing if a number is not finite.
std::optional<Candidates> few_largest(std::span<const float> values, size_t wanted) {
  if (auto sampled = sampled_candidates(values, wanted)) return sampled;
  const float greatest = greatest_of(values);
  if (!std::isfinite(greatest)) return std::nullopt;
  Search search = search_from_mean(values, greatest, wanted);
  search.narrow(values, kFew * wanted);
  Candidates found(search.from_low());
  found.collect(search.low(), values, 0);
  DLFLOW_CHECK(found.size() == search.from_low());
  return found;
}

/// Takes those from `sure` on, and a run of the likely ones that begins with number `offset`.
void take(const Candidates& candidates, const Thresholds& from, size_t offset,
          std::span<uint32_t> indices) {
  size_t taken = 0, likely = 0;
  const size_t end = offset + indices.size() - from.num_sure;
  for (size_t i = 0; taken < indices.size(); ++i) {
    const float magnitude = std::fabs(candidates.values()[i]);
    if (magnitude < from.likely) continue;
    if (magnitude < from.sure) {
      const size_t number = likely++;
      if (number < offset || number >= end) continue;
    }
    indices[taken++] = candidates.indices()[i];
  }
}

class MsTopK final : public SparseMethod {
 public:
  void encode(std::span<const float> values, const Occasion& occasion,
              std::span<std::byte> message) const override {
    const std::span<uint32_t> indices = sparse_view(message).indices;
    const auto few = indices.empty() ? std::nullopt : few_largest(values, indices.size());
    const float greatest = few ? greatest_of(few->values()) : 0;
    if (!few || !std::isfinite(greatest)) {
      select_largest(values, indices);
    } else {
      Search search(least_of(few->values()), few->size(), greatest, indices.size());
      search.narrow(few->values(), indices.size());
      const Thresholds found = search.finish(few->values());
      const size_t spare = found.num_likely - (indices.size() - found.num_sure);
      RandomStream random(occasion.seed, RandomUse::Compression, uint32_t(occasion.step),
                          uint32_t(occasion.first));
      take(*few, found, random.below(uint32_t(spare) + 1), indices);
    }
    fill_in(values, message);
  }
};

}  // namespace

std::unique_ptr<Compressor> make_ms_top_k() { return std::make_unique<MsTopK>(); }

}  // namespace dlflow::runtime
