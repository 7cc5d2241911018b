#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/nn/kernels.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {

DLFLOW_VECTOR_CLONES
void relu(const float* x, float* y, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

DLFLOW_VECTOR_CLONES
void add(const float* a, const float* b, bool relu, float* sum, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float v = a[i] + b[i];
    sum[i] = relu && v < 0 ? 0 : v;
  }
}

DLFLOW_VECTOR_CLONES
void finish_gradient(float* gradient, const float* more, const float* y, size_t count) {
  if (more != nullptr) {
    for (size_t i = 0; i < count; ++i) gradient[i] += more[i];
  }
  if (y != nullptr) {
    for (size_t i = 0; i < count; ++i) gradient[i] = y[i] > 0 ? gradient[i] : 0;
  }
}

LossSums softmax_cross_entropy(std::span<const float> scores, std::span<const uint32_t> labels,
                               double smoothing, std::span<float> probabilities) {
  const size_t classes = scores.size() / std::max<size_t>(labels.size(), 1);
  LossSums sums;
  for (size_t b = 0; b < labels.size(); ++b) {
    const std::span<const float> row = scores.subspan(b * classes, classes);
    const std::span<float> p = probabilities.subspan(b * classes, classes);
    const auto highest = std::ranges::max_element(row);
    float sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += p[c] = std::exp(row[c] - *highest);
    for (float& v : p) v /= sum;
    double target = double(row[labels[b]]);  // the targets' mean of the scores
    if (smoothing > 0) {
      const double mean = std::accumulate(row.begin(), row.end(), 0.0) / double(classes);
      target += smoothing * (mean - target);
    }
    sums.loss += double(std::log(sum)) + double(*highest) - target;
    sums.num_correct += highest - row.begin() == int64_t(labels[b]) ? 1 : 0;
  }
  return sums;
}

void softmax_cross_entropy_backward(std::span<const float> probabilities,
                                    std::span<const uint32_t> labels, double smoothing, float scale,
                                    std::span<float> gradient) {
  const size_t classes = gradient.size() / std::max<size_t>(labels.size(), 1);
  const auto miss = float(smoothing / double(classes)), hit = float(1 - smoothing) + miss;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float target = i % classes == labels[i / classes] ? hit : miss;
    gradient[i] = scale * (probabilities[i] - target);
  }
}

}  // namespace dlflow::runtime
