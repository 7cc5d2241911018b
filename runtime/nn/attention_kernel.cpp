#include "runtime/nn/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <type_traits>

#include "base/error.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr int64_t kBlock = 128;

/// Rows that begin `ld` numbers apart.
struct Matrix {
  const float* numbers;
  bool transposed;
  int64_t ld;
};

/// c (m, n) = a (m, k) b (k, n) + beta * c.
void multiply(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float beta,
              float* c, int64_t ldc) {
  const auto status = dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f,
                                  a.numbers, a.ld, b.numbers, b.ld, beta, c, ldc);
  DLFLOW_CHECK(status == dnnl::status::success);
}

/// Rows [0, length) of `size` numbers, `stride` apart.
template <typename T>
void read_rows(const T* from, int64_t stride, int64_t length, int64_t size, float scale,
               float* to) {
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t i = 0; i < size; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to[t * size + i] = scale * from[t * stride + i];
      } else {
        to[t * size + i] = scale * widen(from[t * stride + i]);
      }
    }
  }
}

template <typename T>
void write_rows(const float* from, int64_t stride, int64_t length, int64_t size, T* to) {
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t i = 0; i < size; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to[t * stride + i] = from[t * size + i];
      } else {
        to[t * stride + i] = narrow(from[t * size + i]);
      }
    }
  }
}

/// A head's part of the rows of (B,T,features).
struct Slice {
  int64_t first;   // number
  int64_t stride;  // between rows
};

void read(Numbers from, const Slice& slice, int64_t length, int64_t size, float scale,
          std::vector<float>& to) {
  from.halves
      ? read_rows(from.as<BFloat16>() + slice.first, slice.stride, length, size, scale, to.data())
      : read_rows(from.as<float>() + slice.first, slice.stride, length, size, scale, to.data());
}

void write(const std::vector<float>& from, const Slice& slice, int64_t length, int64_t size,
           Numbers to) {
  to.halves ? write_rows(from.data(), slice.stride, length, size, to.as<BFloat16>() + slice.first)
            : write_rows(from.data(), slice.stride, length, size, to.as<float>() + slice.first);
}

/// Sets rows [first, end) to 0.
void clear(const Slice& slice, int64_t first, int64_t end, int64_t size, Numbers numbers) {
  for (int64_t t = first; t < end; ++t) {
    const int64_t at = slice.first + t * slice.stride;
    if (numbers.halves) {
      std::fill_n(numbers.as<BFloat16>() + at, size, BFloat16{});
    } else {
      std::fill_n(numbers.as<float>() + at, size, 0.0f);
    }
  }
}

/// Of a row of scores, the numbers that count: all, or those up to the diagonal.
int64_t visible(bool causal, int64_t row, int64_t first_column, int64_t columns) {
  return causal ? std::clamp<int64_t>(row + 1 - first_column, 0, columns) : columns;
}

/// Makes powers of a row of scores, around the highest so far, and takes what was summed before
/// along: returns by what that is to be multiplied.
DLFLOW_VECTOR_CLONES
float take_row(float* row, int64_t count, int64_t columns, float& highest, float& sum) {
  float best = highest;
  for (int64_t i = 0; i < count; ++i) best = std::max(best, row[i]);
  Lanes total = {};
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    const Lanes p = exponential(load<true>(row + at, kLanes) - best);
    store<true>(row + at, p, kLanes);
    total += p;
  }
  if (at < count) {
    Lanes p = exponential(load<false>(row + at, count - at) - best);
    for (int64_t i = count - at; i < kLanes; ++i) p[i] = 0;
    store<false>(row + at, p, count - at);
    total += p;
  }
  std::fill(row + count, row + columns, 0.0f);
  const float factor = std::exp(highest - best);
  highest = best;
  sum = sum * factor + sum_of(total);
  return factor;
}

/// row = exp(row - logarithm), of the numbers that count; gradient = row * (gradient - product).
DLFLOW_VECTOR_CLONES
void finish_row(float* row, float* gradient, int64_t count, int64_t columns, float logarithm,
                float product) {
  int64_t at = 0;
  for (; at < count; at += kLanes) {
    const int64_t width = std::min(kLanes, count - at);
    const Lanes p = exponential(load<false>(row + at, width) - logarithm);
    store<false>(row + at, p, width);
    store<false>(gradient + at, p * (load<false>(gradient + at, width) - product), width);
  }
  std::fill(row + count, row + columns, 0.0f);
  std::fill(gradient + count, gradient + columns, 0.0f);
}

void scale_row(float* row, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) row[i] *= factor;
}

/// The positions of a sample that count.
int64_t length_of(std::span<const float> lengths, int64_t sample, int64_t all) {
  if (lengths.empty()) return all;
  const auto length = int64_t(lengths[size_t(sample)]);
  DLFLOW_CHECK(length > 0 && length <= all);
  return length;
}

}  // namespace

AttentionKernel::AttentionKernel(const AttentionShape& shape)
    : shape_(shape), scale_(float(1 / std::sqrt(double(shape.size)))) {
  const auto panel = size_t(shape.length * shape.size);
  for (auto* numbers : {&q_, &k_, &v_, &o_, &dq_, &dk_, &dv_, &do_}) numbers->resize(panel);
  logarithms_.resize(size_t(shape.batch * shape.heads * shape.length));
  products_.resize(size_t(shape.length));
  block_.resize(size_t(kBlock * kBlock));
  gradient_block_.resize(block_.size());
  if (!shape.rotary) return;
  const int64_t half = shape.size / 2;
  for (int64_t t = 0; t < shape.length; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = double(t) * std::pow(10000.0, -double(i) / double(half));
      cosines_.push_back(float(std::cos(angle)));
      sines_.push_back(float(std::sin(angle)));
    }
  }
}

/// The two halves of a row are the coordinates of `size / 2` points.
void AttentionKernel::rotate(std::vector<float>& panel, float direction) const {
  if (!shape_.rotary) return;
  const int64_t half = shape_.size / 2;
  for (int64_t t = 0; t < length_; ++t) {
    float* x = panel.data() + t * shape_.size;
    float* y = x + half;
    for (int64_t i = 0; i < half; ++i) {
      const float cosine = cosines_[size_t(t * half + i)];
      const float sine = direction * sines_[size_t(t * half + i)];
      const float a = x[i], b = y[i];
      x[i] = a * cosine - b * sine;
      y[i] = b * cosine + a * sine;
    }
  }
}

void AttentionKernel::read_keys(Numbers x, int64_t sample, int64_t kv_head) {
  const int64_t stride = shape_.input_features(), row = sample * shape_.length * stride;
  const int64_t key = row + (shape_.heads + kv_head) * shape_.size;
  read(x, {key, stride}, length_, shape_.size, 1, k_);
  read(x, {key + shape_.kv_heads * shape_.size, stride}, length_, shape_.size, 1, v_);
  rotate(k_, 1);
}

void AttentionKernel::read_queries(Numbers x, int64_t sample, int64_t head) {
  const int64_t stride = shape_.input_features(), row = sample * shape_.length * stride;
  read(x, {row + head * shape_.size, stride}, length_, shape_.size, scale_, q_);
  rotate(q_, 1);
}

void AttentionKernel::forward(Numbers x, Numbers y, std::span<const float> lengths) {
  const int64_t stride = shape_.result_features();
  const int64_t group = shape_.heads / shape_.kv_heads;
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    length_ = length_of(lengths, sample, shape_.length);
    for (int64_t head = 0; head < shape_.heads; ++head) {
      if (head % group == 0) read_keys(x, sample, head / group);
      read_queries(x, sample, head);
      float* logarithms = logarithms_.data() + (sample * shape_.heads + head) * shape_.length;
      for (int64_t first = 0; first < length_; first += kBlock) {
        forward_block(first, std::min(kBlock, length_ - first), logarithms);
      }
      const Slice result{sample * shape_.length * stride + head * shape_.size, stride};
      write(o_, result, length_, shape_.size, y);
      clear(result, length_, shape_.length, shape_.size, y);
    }
  }
}

void AttentionKernel::forward_block(int64_t first, int64_t rows, float* logarithms) {
  const int64_t d = shape_.size;
  float* o = o_.data() + first * d;
  std::fill_n(o, rows * d, 0.0f);
  std::vector<float> highest(size_t(rows), -INFINITY), sums(size_t(rows), 0.0f);
  const int64_t end = shape_.causal ? first + rows : length_;
  for (int64_t column = 0; column < end; column += kBlock) {
    const int64_t columns = std::min(kBlock, end - column);
    multiply(rows, columns, d, {q_.data() + first * d, false, d}, {k_.data() + column * d, true, d},
             0, block_.data(), kBlock);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t count = visible(shape_.causal, first + r, column, columns);
      float* row = block_.data() + r * kBlock;
      const float factor = take_row(row, count, columns, highest[size_t(r)], sums[size_t(r)]);
      scale_row(o + r * d, d, factor);
    }
    multiply(rows, d, columns, {block_.data(), false, kBlock}, {v_.data() + column * d, false, d},
             1, o, d);
  }
  for (int64_t r = 0; r < rows; ++r) {
    scale_row(o + r * d, d, 1 / sums[size_t(r)]);
    logarithms[first + r] = highest[size_t(r)] + std::log(sums[size_t(r)]);
  }
}

void AttentionKernel::backward(Numbers x, Numbers y, Numbers dy, Numbers dx,
                               std::span<const float> lengths) {
  const int64_t whole = shape_.length, d = shape_.size;
  const int64_t in = shape_.input_features(), out = shape_.result_features();
  const int64_t group = shape_.heads / shape_.kv_heads;
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    const int64_t length = length_ = length_of(lengths, sample, whole);
    for (int64_t head = 0; head < shape_.heads; ++head) {
      if (head % group == 0) {
        read_keys(x, sample, head / group);
        std::ranges::fill(dk_, 0.0f);
        std::ranges::fill(dv_, 0.0f);
      }
      read_queries(x, sample, head);
      const Slice result{sample * whole * out + head * d, out};
      read(y, result, length, d, 1, o_);
      read(dy, result, length, d, 1, do_);
      for (int64_t t = 0; t < length; ++t) {
        float sum = 0;
        for (int64_t i = 0; i < d; ++i) sum += o_[size_t(t * d + i)] * do_[size_t(t * d + i)];
        products_[size_t(t)] = sum;
      }
      const float* logarithms = logarithms_.data() + (sample * shape_.heads + head) * whole;
      for (int64_t first = 0; first < length; first += kBlock) {
        backward_block(first, std::min(kBlock, length - first), logarithms);
      }
      rotate(dq_, -1);
      for (float& v : dq_) v *= scale_;
      const Slice query{sample * whole * in + head * d, in};
      write(dq_, query, length, d, dx);
      clear(query, length, whole, d, dx);
      if ((head + 1) % group != 0) continue;
      rotate(dk_, -1);
      const Slice key{sample * whole * in + (shape_.heads + head / group) * d, in};
      const Slice value{key.first + shape_.kv_heads * d, in};
      write(dk_, key, length, d, dx);
      write(dv_, value, length, d, dx);
      clear(key, length, whole, d, dx);
      clear(value, length, whole, d, dx);
    }
  }
}

void AttentionKernel::backward_block(int64_t first, int64_t rows, const float* logarithms) {
  const int64_t d = shape_.size;
  const float *q = q_.data() + first * d, *g = do_.data() + first * d;
  float* dq = dq_.data() + first * d;
  const int64_t end = shape_.causal ? first + rows : length_;
  for (int64_t column = 0; column < end; column += kBlock) {
    const int64_t columns = std::min(kBlock, end - column);
    const float *k = k_.data() + column * d, *v = v_.data() + column * d;
    multiply(rows, columns, d, {q, false, d}, {k, true, d}, 0, block_.data(), kBlock);
    multiply(rows, columns, d, {g, false, d}, {v, true, d}, 0, gradient_block_.data(), kBlock);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t count = visible(shape_.causal, first + r, column, columns);
      finish_row(block_.data() + r * kBlock, gradient_block_.data() + r * kBlock, count, columns,
                 logarithms[first + r], products_[size_t(first + r)]);
    }
    const Matrix powers{block_.data(), true, kBlock}, slopes{gradient_block_.data(), true, kBlock};
    multiply(columns, d, rows, powers, {g, false, d}, 1, dv_.data() + column * d, d);
    multiply(columns, d, rows, slopes, {q, false, d}, 1, dk_.data() + column * d, d);
    multiply(rows, d, columns, {gradient_block_.data(), false, kBlock}, {k, false, d},
             column == 0 ? 0 : 1, dq, d);
  }
}

}  // namespace dlflow::runtime
