#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/finite.h"
#include "runtime/nn/kernels.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

template <typename T>
DLFLOW_INLINE void relu_as(const T* x, T* y, size_t count) {
  for_each_lanes(
      int64_t(count), [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        store<whole()>(y + at, relu(load<whole()>(x + at, width)), width);
      });
}

template <typename T>
DLFLOW_INLINE void add_as(const T* a, const T* b, bool with_relu, T* sum, size_t count) {
  for_each_lanes(
      int64_t(count), [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        const Lanes v = load<whole()>(a + at, width) + load<whole()>(b + at, width);
        store<whole()>(sum + at, with_relu ? relu(v) : v, width);
      });
}

template <typename T>
DLFLOW_INLINE void finish_as(T* gradient, const T* more, const T* y, size_t count) {
  for_each_lanes(
      int64_t(count), [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        Lanes d = load<whole()>(gradient + at, width);
        if (more != nullptr) d += load<whole()>(more + at, width);
        if (y != nullptr) d = pass(d, load<whole()>(y + at, width));
        store<whole()>(gradient + at, d, width);
      });
}

DLFLOW_INLINE float value(float number) { return number; }
DLFLOW_INLINE float value(BFloat16 number) { return widen(number); }

template <typename T>
DLFLOW_INLINE bool all_finite_as(const T* x, size_t count) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) greatest = greatest_bits(greatest, value(x[i]));
  return dlflow::all_finite(greatest);
}

/// Softmax of one sample; leaves the probabilities in `p`.
struct Softmax {
  size_t highest;  ///< the first of the highest scores
  double log_sum;  ///< log of the sum of exp(score)

  Softmax(std::span<const float> row, std::span<float> p) {
    const auto most = std::ranges::max_element(row);
    float sum = 0;
    for (size_t c = 0; c < row.size(); ++c) sum += p[c] = std::exp(row[c] - *most);
    for (float& v : p) v /= sum;
    highest = size_t(most - row.begin());
    log_sum = double(std::log(sum)) + double(*most);
  }
};

/// The targets of the classes for one sample.
struct SmoothTarget {
  uint32_t label;
  double hit, miss;

  SmoothTarget(uint32_t the_label, const CrossEntropy& loss)
      : label(the_label),
        hit(1 - loss.smoothing + loss.smoothing / double(loss.classes)),
        miss(loss.smoothing / double(loss.classes)) {}
  double of(size_t c) const { return c == label ? hit : miss; }
};

/// The shares of the classes in one sample, smoothed and weighted.
struct SoftTarget {
  const CrossEntropy& loss;
  std::span<const float> shares;

  double of(size_t c) const {
    const double even = 1 / double(shares.size());
    const double weight = loss.class_weights.empty() ? 1 : double(loss.class_weights[c]);
    return weight * ((1 - loss.smoothing) * double(shares[c]) + loss.smoothing * even);
  }
};

/// The sum over classes of target * weight * (`log_sum` - score), where `log_sum` - score is -log
/// of the probability.
double weighted_loss(std::span<const float> row, double log_sum, const SmoothTarget& target,
                     std::span<const float> weights) {
  double loss = 0;
  for (size_t c = 0; c < row.size(); ++c) {
    loss += target.of(c) * double(weights[c]) * (log_sum - double(row[c]));
  }
  return loss;
}

void weighted_backward(std::span<const float> probabilities, const SmoothTarget& target,
                       std::span<const float> weights, float scale, std::span<float> gradient) {
  double all = 0;
  for (size_t c = 0; c < weights.size(); ++c) all += target.of(c) * double(weights[c]);
  for (size_t c = 0; c < weights.size(); ++c) {
    const double own = target.of(c) * double(weights[c]);
    gradient[c] = scale * float(double(probabilities[c]) * all - own);
  }
}

}  // namespace

DLFLOW_VECTOR_CLONES
bool all_finite(Numbers x, size_t count) {
  return x.is_bf16 ? all_finite_as(x.as<BFloat16>(), count) : all_finite_as(x.as<float>(), count);
}

DLFLOW_VECTOR_CLONES
void relu(Numbers x, Numbers y, size_t count) {
  x.is_bf16 ? relu_as(x.as<BFloat16>(), y.as<BFloat16>(), count)
            : relu_as(x.as<float>(), y.as<float>(), count);
}

DLFLOW_VECTOR_CLONES
void add(Numbers a, Numbers b, bool relu, Numbers sum, size_t count) {
  a.is_bf16 ? add_as(a.as<BFloat16>(), b.as<BFloat16>(), relu, sum.as<BFloat16>(), count)
            : add_as(a.as<float>(), b.as<float>(), relu, sum.as<float>(), count);
}

DLFLOW_VECTOR_CLONES
void sum_rows(const float* values, int64_t rows, int64_t columns, float* sums) {
  std::fill_n(sums, columns, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) sums[c] += values[r * columns + c];
  }
}

DLFLOW_VECTOR_CLONES
void finish_gradient(Numbers gradient, Numbers more, Numbers y, size_t count) {
  gradient.is_bf16
      ? finish_as(gradient.as<BFloat16>(), more.as<BFloat16>(), y.as<BFloat16>(), count)
      : finish_as(gradient.as<float>(), more.as<float>(), y.as<float>(), count);
}

LossSums softmax_cross_entropy(const CrossEntropy& loss, std::span<const float> scores,
                               std::span<const uint32_t> labels, std::span<float> probabilities) {
  const size_t classes = loss.classes;
  LossSums sums;
  for (size_t b = 0; b < labels.size(); ++b) {
    const std::span<const float> row = scores.subspan(b * classes, classes);
    const std::span<float> p = probabilities.subspan(b * classes, classes);
    const Softmax softmax(row, p);
    double target = double(row[labels[b]]);  // the scores' mean, weighted by the targets
    if (loss.smoothing > 0) {
      const double mean = std::accumulate(row.begin(), row.end(), 0.0) / double(classes);
      target += loss.smoothing * (mean - target);
    }
    const double log_sum = softmax.log_sum;
    sums.loss += loss.class_weights.empty()
                     ? log_sum - target
                     : weighted_loss(row, log_sum, {labels[b], loss}, loss.class_weights);
    sums.num_correct += softmax.highest == labels[b] ? 1 : 0;
  }
  return sums;
}

LossSums soft_cross_entropy(const CrossEntropy& loss, std::span<const float> scores,
                            std::span<const uint32_t> labels, std::span<const float> targets,
                            std::span<float> probabilities) {
  const size_t classes = loss.classes;
  LossSums sums;
  for (size_t b = 0; b < labels.size(); ++b) {
    const std::span<const float> row = scores.subspan(b * classes, classes);
    const Softmax softmax(row, probabilities.subspan(b * classes, classes));
    const SoftTarget target{loss, targets.subspan(b * classes, classes)};
    for (size_t c = 0; c < classes; ++c) {
      sums.loss += target.of(c) * (softmax.log_sum - double(row[c]));
    }
    sums.num_correct += softmax.highest == labels[b] ? 1 : 0;
  }
  return sums;
}

void soft_cross_entropy_backward(const CrossEntropy& loss, std::span<const float> probabilities,
                                 std::span<const float> targets, float scale,
                                 std::span<float> gradient) {
  for (size_t first = 0; first < targets.size(); first += loss.classes) {
    const SoftTarget target{loss, targets.subspan(first, loss.classes)};
    double all = 0;
    for (size_t c = 0; c < loss.classes; ++c) all += target.of(c);
    for (size_t c = 0; c < loss.classes; ++c) {
      gradient[first + c] = scale * float(double(probabilities[first + c]) * all - target.of(c));
    }
  }
}

int64_t num_in_top5(std::span<const float> scores, std::span<const uint32_t> labels) {
  constexpr int64_t kTop = 5;
  const size_t classes = scores.size() / std::max<size_t>(labels.size(), 1);
  int64_t count = 0;
  for (size_t b = 0; b < labels.size(); ++b) {
    const std::span<const float> row = scores.subspan(b * classes, classes);
    const float own = row[labels[b]];
    int64_t before = 0;  // in a tie the first score ranks higher, as in the accuracy
    bool ordered = true;
    for (size_t c = 0; c < classes; ++c) {
      before += row[c] > own || (row[c] == own && c < labels[b]) ? 1 : 0;
      ordered = ordered && !std::isnan(row[c]);
    }
    count += ordered && before < kTop ? 1 : 0;
  }
  return count;
}

void softmax_cross_entropy_backward(const CrossEntropy& loss, std::span<const float> probabilities,
                                    std::span<const uint32_t> labels, float scale,
                                    std::span<float> gradient) {
  const size_t classes = loss.classes;
  if (!loss.class_weights.empty()) {
    for (size_t b = 0; b < labels.size(); ++b) {
      weighted_backward(probabilities.subspan(b * classes, classes), {labels[b], loss},
                        loss.class_weights, scale, gradient.subspan(b * classes, classes));
    }
    return;
  }
  const auto miss = float(loss.smoothing / double(classes)), hit = float(1 - loss.smoothing) + miss;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float target = i % classes == labels[i / classes] ? hit : miss;
    gradient[i] = scale * (probabilities[i] - target);
  }
}

}  // namespace dlflow::runtime
