#include "runtime/nn/contrastive_loss.h"

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>

#include "base/error.h"
#include "base/vector_clones.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// c (m, n) = factor * a (m, k) b, where b is (k, n), or (n, k) if it is transposed.
void multiply(int64_t m, int64_t n, int64_t k, float factor, const float* a, const float* b,
              bool transposed, float* c) {
  const auto status = dnnl::sgemm('N', transposed ? 'T' : 'N', m, n, k, factor, a, k, b,
                                  transposed ? k : n, 0, c, n);
  DLFLOW_CHECK(status == dnnl::status::success);
}

/// The logarithm of the sum of exp(x) over a row.
DLFLOW_VECTOR_CLONES
float log_sum(const float* row, int64_t count) {
  float highest = row[0];
  for (int64_t i = 1; i < count; ++i) highest = std::max(highest, row[i]);
  Lanes total = {};
  for (int64_t at = 0; at < count; at += kLanes) {
    const int64_t width = std::min(kLanes, count - at);
    Lanes powers = exponential(load<false>(row + at, width) - highest);
    for (int64_t i = width; i < kLanes; ++i) powers[i] = 0;
    total += powers;
  }
  return highest + std::log(sum_of(total));
}

/// Half of each pair's probability among all pairs of the row, and half of that among all pairs of
/// its column.
DLFLOW_VECTOR_CLONES
void mean_probabilities(const float* row, float log_of_row, const float* logs_of_columns,
                        int64_t count, float* probabilities) {
  for (int64_t at = 0; at < count; at += kLanes) {
    const int64_t width = std::min(kLanes, count - at);
    const Lanes score = load<false>(row + at, width);
    const Lanes sum = exponential(score - log_of_row) +
                      exponential(score - load<false>(logs_of_columns + at, width));
    store<false>(probabilities + at, 0.5f * sum, width);
  }
}

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

}  // namespace

ContrastiveSums ContrastiveLoss::measure(const Pairs& pairs, int64_t first, int64_t count,
                                         std::span<float> gradient) {
  DLFLOW_CHECK(first + count <= pairs.samples);
  DLFLOW_CHECK(int64_t(gradient.size()) == count * 2 * pairs.size);
  for (int side = 0; side < 2; ++side) make_units(pairs, side);
  for (int side = 0; side < 2; ++side) make_scores(pairs, side);
  for (int side = 0; side < 2; ++side) make_gradient(pairs, side, first, count, gradient);

  ContrastiveSums sums;
  for (int64_t own = first; own < first + count; ++own) {
    for (const Side& side : sides_) {
      const float score = side.scores[size_t(own * pairs.samples + own)];
      sums.loss += (double(side.logs[size_t(own)]) - double(score)) / 2;
    }
    const auto row = sides_[0].scores.begin() + own * pairs.samples;
    sums.num_correct += std::max_element(row, row + pairs.samples) - row == own ? 1 : 0;
  }
  return sums;
}

void ContrastiveLoss::make_units(const Pairs& pairs, int side) {
  const int64_t size = pairs.size;
  Side& s = sides_[side];
  s.units.resize(size_t(pairs.samples * size));
  s.inverses.resize(size_t(pairs.samples));
  for (int64_t sample = 0; sample < pairs.samples; ++sample) {
    const float* from = pairs.numbers + (sample * 2 + side) * size;
    const double length = std::sqrt(dot(from, from, size));
    const auto inverse = float(length == 0 ? 0 : 1 / length);
    s.inverses[size_t(sample)] = inverse;
    std::transform(from, from + size, s.units.begin() + sample * size,
                   [&](float x) { return x * inverse; });
  }
}

void ContrastiveLoss::make_scores(const Pairs& pairs, int side) {
  const int64_t samples = pairs.samples;
  Side& s = sides_[side];
  s.scores.resize(size_t(samples * samples));
  s.logs.resize(size_t(samples));
  multiply(samples, samples, pairs.size, float(1 / temperature_), s.units.data(),
           sides_[1 - side].units.data(), true, s.scores.data());
  for (int64_t sample = 0; sample < samples; ++sample) {
    s.logs[size_t(sample)] = log_sum(s.scores.data() + sample * samples, samples);
  }
}

/// A unit's slopes are of its own pair -1 more than the mean of its probabilities; those along the
/// embedding itself do not count, since its length does not.
void ContrastiveLoss::make_gradient(const Pairs& pairs, int side, int64_t first, int64_t count,
                                    std::span<float> gradient) {
  const int64_t samples = pairs.samples, size = pairs.size;
  const Side &s = sides_[side], &other = sides_[1 - side];
  slopes_.resize(size_t(count * samples));
  by_unit_.resize(size_t(count * size));
  for (int64_t i = 0; i < count; ++i) {
    float* slopes = slopes_.data() + i * samples;
    mean_probabilities(s.scores.data() + (first + i) * samples, s.logs[size_t(first + i)],
                       other.logs.data(), samples, slopes);
    slopes[first + i] -= 1;
  }
  multiply(count, size, samples, float(1 / temperature_), slopes_.data(), other.units.data(), false,
           by_unit_.data());
  for (int64_t i = 0; i < count; ++i) {
    const float* unit = s.units.data() + (first + i) * size;
    const float* slope = by_unit_.data() + i * size;
    const auto along = float(dot(slope, unit, size));
    float* to = gradient.data() + (i * 2 + side) * size;
    for (int64_t k = 0; k < size; ++k) {
      to[k] = (slope[k] - along * unit[k]) * s.inverses[size_t(first + i)];
    }
  }
}

}  // namespace dlflow::runtime
