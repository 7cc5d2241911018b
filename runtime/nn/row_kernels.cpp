#include "runtime/nn/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

/// Replaces lanes from `width` on by `other`.
DLFLOW_INLINE Lanes cut(const Lanes& lanes, int64_t width, float other) {
  Lanes result = lanes;
  for (int64_t i = width; i < kLanes; ++i) result[i] = other;
  return result;
}

template <typename T>
DLFLOW_INLINE float mean_of(const T* x, int64_t features) {
  Lanes sum = {};
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole)
                    __attribute__((always_inline)) { sum += load<whole()>(x + at, width); });
  return sum_of(sum) / float(features);
}

template <typename T>
DLFLOW_INLINE float mean_square_around(const T* x, float mean, int64_t features) {
  Lanes sum = {};
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        Lanes d = load<whole()>(x + at, width) - mean;
        if (!whole()) d = cut(d, width, 0);
        sum += d * d;
      });
  return sum_of(sum) / float(features);
}

template <typename T>
DLFLOW_INLINE void norm_forward_as(const RowNorm& n, const T* x, T* y, float* means,
                                   float* scales) {
  const int64_t features = n.shape.features;
  for (int64_t r = 0; r < n.shape.rows; ++r, x += features, y += features) {
    const float mean = n.centred ? mean_of(x, features) : 0;
    const float scale = 1 / __builtin_sqrtf(mean_square_around(x, mean, features) + kNormEpsilon);
    means[r] = mean;
    scales[r] = scale;
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          Lanes v =
              (load<whole()>(x + at, width) - mean) * scale * load<whole()>(n.weight + at, width);
          if (n.bias != nullptr) v += load<whole()>(n.bias + at, width);
          store<whole()>(y + at, v, width);
        });
  }
}

/// Sums over rows in double precision.
DLFLOW_INLINE void add_lanes(double* sums, const Lanes& lanes) {
  store(sums, load(sums) + to_double(lanes));
}

template <typename T>
DLFLOW_INLINE void norm_backward_as(const RowNorm& n, const NormBackward& pass, double* weight_sums,
                                    double* bias_sums) {
  const T *x = pass.x.as<T>(), *dy = pass.dy.as<T>();
  T* dx = pass.dx.as<T>();
  const float *const means = pass.means, *const scales = pass.scales;
  const int64_t features = n.shape.features;
  for (int64_t r = 0; r < n.shape.rows; ++r, x += features, dy += features, dx += features) {
    Lanes sum = {}, product = {};
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          const Lanes d = load<whole()>(dy + at, width);
          const Lanes normal = (load<whole()>(x + at, width) - means[r]) * scales[r];
          const Lanes g = d * load<whole()>(n.weight + at, width);
          sum += g;
          product += g * normal;
          add_lanes(weight_sums + at, d * normal);
          add_lanes(bias_sums + at, d);
        });
    const float mean = n.centred ? sum_of(sum) / float(features) : 0;
    const float along = sum_of(product) / float(features);
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          const Lanes normal = (load<whole()>(x + at, width) - means[r]) * scales[r];
          const Lanes g = load<whole()>(dy + at, width) * load<whole()>(n.weight + at, width);
          store<whole()>(dx + at, (g - mean - normal * along) * scales[r], width);
        });
  }
}

template <typename T>
DLFLOW_INLINE float highest_of(const T* x, int64_t features) {
  Lanes highest = broadcast(-INFINITY);
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        Lanes v = load<whole()>(x + at, width);
        if (!whole()) v = cut(v, width, -INFINITY);
        highest = maximum(v, highest);
      });
  float best = highest[0];
  for (int i = 1; i < kLanes; ++i) best = std::max(best, highest[i]);
  return best;
}

/// y = exp(x - highest); returns the sum.
template <typename T, typename U>
DLFLOW_INLINE float powers(const T* x, float highest, int64_t features, U* y) {
  Lanes sum = {};
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        Lanes v = exponential(load<whole()>(x + at, width) - highest);
        if (!whole()) v = cut(v, width, 0);
        store<whole()>(y + at, v, width);
        sum += v;
      });
  return sum_of(sum);
}

template <typename T>
DLFLOW_INLINE void multiply(T* y, float factor, int64_t features) {
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        store<whole()>(y + at, load<whole()>(y + at, width) * factor, width);
      });
}

template <typename T>
DLFLOW_INLINE void softmax_as(RowShape shape, const T* x, T* y, float* row) {
  const int64_t features = shape.features;
  for (int64_t r = 0; r < shape.rows; ++r, x += features, y += features) {
    const float sum = powers(x, highest_of(x, features), features, row);
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          store<whole()>(y + at, load<whole()>(row + at, width) * (1 / sum), width);
        });
  }
}

template <typename T>
DLFLOW_INLINE void softmax_backward_as(RowShape shape, const T* y, const T* dy, T* dx) {
  const int64_t features = shape.features;
  for (int64_t r = 0; r < shape.rows; ++r, y += features, dy += features, dx += features) {
    Lanes product = {};
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          product += load<whole()>(y + at, width) * load<whole()>(dy + at, width);
        });
    const float along = sum_of(product);
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          const Lanes d = load<whole()>(dy + at, width) - along;
          store<whole()>(dx + at, load<whole()>(y + at, width) * d, width);
        });
  }
}

template <typename T>
DLFLOW_INLINE void copy_row(const float* from, T* to, int64_t features) {
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        store<whole()>(to + at, load<whole()>(from + at, width), width);
      });
}

template <typename T>
DLFLOW_INLINE void add_row(const T* from, float* to, int64_t features) {
  for_each_lanes(
      features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        store<whole()>(to + at, load<whole()>(to + at, width) + load<whole()>(from + at, width),
                       width);
      });
}

template <typename T>
DLFLOW_INLINE void positions_as(RowShape shape, int64_t length, const T* x, const float* table,
                                T* y) {
  const int64_t features = shape.features;
  for (int64_t r = 0; r < shape.rows; ++r, x += features, y += features) {
    const float* row = table + r % length * features;
    for_each_lanes(
        features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          store<whole()>(y + at, load<whole()>(x + at, width) + load<whole()>(row + at, width),
                         width);
        });
  }
}

void require_tokens(const float* tokens, int64_t rows, int64_t vocabulary) {
  for (int64_t r = 0; r < rows; ++r) {
    const float token = tokens[r];
    if (token >= 0 && token < float(vocabulary) && token == std::floor(token)) continue;
    throw Error(Errc::InvalidInput, "the data has the token " + std::to_string(token) +
                                        "; the embedding takes whole numbers from 0 to " +
                                        std::to_string(vocabulary - 1));
  }
}

template <typename T>
DLFLOW_INLINE void embed_as(const float* tokens, RowShape shape, const float* table, T* y) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    copy_row(table + int64_t(tokens[r]) * shape.features, y + r * shape.features, shape.features);
  }
}

template <typename T>
DLFLOW_INLINE void embed_backward_as(const float* tokens, RowShape shape, const T* dy,
                                     float* gradient) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    add_row(dy + r * shape.features, gradient + int64_t(tokens[r]) * shape.features,
            shape.features);
  }
}

template <typename T>
DLFLOW_INLINE void positions_backward_as(RowShape shape, int64_t length, const T* dy,
                                         float* gradient) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    add_row(dy + r * shape.features, gradient + r % length * shape.features, shape.features);
  }
}

DLFLOW_VECTOR_CLONES
void row_norm_sums(const RowNorm& norm, const NormBackward& pass, double* weight_sums,
                   double* bias_sums) {
  pass.x.is_bf16 ? norm_backward_as<BFloat16>(norm, pass, weight_sums, bias_sums)
                 : norm_backward_as<float>(norm, pass, weight_sums, bias_sums);
}

DLFLOW_VECTOR_CLONES
void softmax_rows(RowShape shape, Numbers x, Numbers y, float* row) {
  x.is_bf16 ? softmax_as(shape, x.as<BFloat16>(), y.as<BFloat16>(), row)
            : softmax_as(shape, x.as<float>(), y.as<float>(), row);
}

DLFLOW_VECTOR_CLONES
void embed_rows(const float* tokens, RowShape shape, const float* table, Numbers y) {
  y.is_bf16 ? embed_as(tokens, shape, table, y.as<BFloat16>())
            : embed_as(tokens, shape, table, y.as<float>());
}

int64_t counted(SequenceShape shape, std::span<const float> lengths, int64_t sample) {
  const int64_t count = lengths.empty() ? shape.length : int64_t(lengths[size_t(sample)]);
  DLFLOW_CHECK(count > 0 && count <= shape.length);
  return count;
}

/// Sums of 16 features at a time over the positions, first to last.
template <typename T>
DLFLOW_INLINE void mean_pool_as(SequenceShape shape, int64_t count, const T* x, T* y) {
  const float share = 1 / float(count);
  for_each_lanes(
      shape.features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
        Lanes sum = {};
        for (int64_t t = 0; t < count; ++t) {
          sum += load<whole()>(x + t * shape.features + at, width);
        }
        store<whole()>(y + at, sum * share, width);
      });
}

template <typename T>
DLFLOW_INLINE void mean_pool_backward_as(SequenceShape shape, int64_t count, const T* dy, T* dx) {
  const float share = 1 / float(count);
  for (int64_t t = 0; t < count; ++t, dx += shape.features) {
    for_each_lanes(
        shape.features, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          store<whole()>(dx + at, load<whole()>(dy + at, width) * share, width);
        });
  }
  std::fill_n(dx, (shape.length - count) * shape.features, T{});
}

}  // namespace

DLFLOW_VECTOR_CLONES
void row_norm_forward(const RowNorm& norm, Numbers x, Numbers y, float* means, float* scales) {
  x.is_bf16 ? norm_forward_as(norm, x.as<BFloat16>(), y.as<BFloat16>(), means, scales)
            : norm_forward_as(norm, x.as<float>(), y.as<float>(), means, scales);
}

void row_norm_backward(const RowNorm& norm, const NormBackward& pass, NormGradients gradients) {
  const auto padded = size_t(norm.shape.features + kLanes);
  std::vector<double> weight_sums(padded), bias_sums(padded);
  row_norm_sums(norm, pass, weight_sums.data(), bias_sums.data());
  for (int64_t f = 0; f < norm.shape.features; ++f) {
    gradients.weight[f] = float(weight_sums[size_t(f)]);
    if (gradients.bias != nullptr) gradients.bias[f] = float(bias_sums[size_t(f)]);
  }
}

void softmax_forward(RowShape shape, Numbers x, Numbers y) {
  std::vector<float> row(size_t(shape.features));
  softmax_rows(shape, x, y, row.data());
}

DLFLOW_VECTOR_CLONES
void softmax_backward(RowShape shape, Numbers y, Numbers dy, Numbers dx) {
  y.is_bf16 ? softmax_backward_as(shape, y.as<BFloat16>(), dy.as<BFloat16>(), dx.as<BFloat16>())
            : softmax_backward_as(shape, y.as<float>(), dy.as<float>(), dx.as<float>());
}

DLFLOW_VECTOR_CLONES
TokenSums token_cross_entropy(const ScoreRows& scores, const TokenTargets& targets,
                              float* probabilities) {
  TokenSums sums;
  const int64_t classes = scores.classes;
  for (int64_t r = 0; r < scores.rows; ++r) {
    const uint32_t target = targets.tokens[size_t(r)];
    if (target == kNoTarget) continue;
    const float* row = scores.numbers + r * classes;
    float* p = probabilities + r * classes;
    const float highest = highest_of(row, classes);
    const float sum = powers(row, highest, classes, p);
    multiply(p, 1 / sum, classes);
    double wanted = double(row[target]);  // the scores' mean, weighted by the target
    if (targets.smoothing > 0) {
      wanted += targets.smoothing * (double(mean_of(row, classes)) - wanted);
    }
    const double share = double(targets.shares[size_t(r)]);
    sums.loss += share * (double(std::log(sum)) + double(highest) - wanted);
    sums.num_correct += std::find(row, row + classes, highest) - row == int64_t(target) ? 1 : 0;
    sums.num_targets += 1;
  }
  return sums;
}

DLFLOW_VECTOR_CLONES
void token_cross_entropy_backward(const ScoreRows& probabilities, const TokenTargets& targets,
                                  float scale, float* gradient) {
  const int64_t classes = probabilities.classes;
  const auto miss = float(targets.smoothing / double(classes));
  for (int64_t r = 0; r < probabilities.rows; ++r) {
    const uint32_t target = targets.tokens[size_t(r)];
    const float* p = probabilities.numbers + r * classes;
    float* d = gradient + r * classes;
    if (target == kNoTarget) {
      std::fill_n(d, classes, 0.0f);
      continue;
    }
    const float factor = scale * targets.shares[size_t(r)];
    for_each_lanes(
        classes, [&](int64_t at, int64_t width, auto whole) __attribute__((always_inline)) {
          store<whole()>(d + at, (load<whole()>(p + at, width) - miss) * factor, width);
        });
    d[target] -= factor * float(1 - targets.smoothing);
  }
}

void embed(const float* tokens, RowShape shape, const float* table, int64_t vocabulary, Numbers y) {
  require_tokens(tokens, shape.rows, vocabulary);
  embed_rows(tokens, shape, table, y);
}

DLFLOW_VECTOR_CLONES
void embed_backward(const float* tokens, RowShape shape, Numbers dy, float* gradient) {
  dy.is_bf16 ? embed_backward_as(tokens, shape, dy.as<BFloat16>(), gradient)
             : embed_backward_as(tokens, shape, dy.as<float>(), gradient);
}

DLFLOW_VECTOR_CLONES
void add_table_rows(RowShape shape, int64_t length, Numbers x, const float* table, Numbers y) {
  x.is_bf16 ? positions_as(shape, length, x.as<BFloat16>(), table, y.as<BFloat16>())
            : positions_as(shape, length, x.as<float>(), table, y.as<float>());
}

DLFLOW_VECTOR_CLONES
void sum_table_rows(RowShape shape, int64_t length, Numbers dy, float* gradient) {
  std::fill_n(gradient, length * shape.features, 0.0f);
  dy.is_bf16 ? positions_backward_as(shape, length, dy.as<BFloat16>(), gradient)
             : positions_backward_as(shape, length, dy.as<float>(), gradient);
}

DLFLOW_VECTOR_CLONES
void mean_pool_forward(SequenceShape shape, std::span<const float> lengths, Numbers x, Numbers y) {
  const int64_t size = shape.length * shape.features;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t count = counted(shape, lengths, b), row = b * shape.features;
    x.is_bf16 ? mean_pool_as(shape, count, x.as<BFloat16>() + b * size, y.as<BFloat16>() + row)
              : mean_pool_as(shape, count, x.as<float>() + b * size, y.as<float>() + row);
  }
}

DLFLOW_VECTOR_CLONES
void mean_pool_backward(SequenceShape shape, std::span<const float> lengths, Numbers dy,
                        Numbers dx) {
  const int64_t size = shape.length * shape.features;
  for (int64_t b = 0; b < shape.batch; ++b) {
    const int64_t count = counted(shape, lengths, b), row = b * shape.features;
    dx.is_bf16
        ? mean_pool_backward_as(shape, count, dy.as<BFloat16>() + row, dx.as<BFloat16>() + b * size)
        : mean_pool_backward_as(shape, count, dy.as<float>() + row, dx.as<float>() + b * size);
  }
}

}  // namespace dlflow::runtime
