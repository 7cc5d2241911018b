#include "runtime/nn/attention_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/vector_clones.h"
#include "runtime/nn/block_product.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr int64_t kQueries = 64;  // per block
constexpr int64_t kKeys = 128;
constexpr int64_t kStrip = 16;  // queries computed together up to the diagonal

int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of * of; }

/// The panel's last strip is filled with zeros after the rows that count.
template <typename T>
void read_rows(const T* from, const AttentionKernel::HeadRows& rows, float scale, float* to) {
  from += rows.first;
  for (int64_t t = 0; t < rows.count; ++t, from += rows.stride, to += rows.panel_stride) {
    for (int64_t i = 0; i < rows.size; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to[i] = scale * from[i];
      } else {
        to[i] = scale * widen(from[i]);
      }
    }
  }
  std::fill_n(to, (whole(rows.count, kStrip) - rows.count) * rows.panel_stride, 0.0f);
}

template <typename T>
void write_rows(const float* from, const AttentionKernel::HeadRows& rows, float scale, T* to) {
  to += rows.first;
  for (int64_t t = 0; t < rows.count; ++t, from += rows.panel_stride, to += rows.stride) {
    for (int64_t i = 0; i < rows.size; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to[i] = scale * from[i];
      } else {
        to[i] = narrow(scale * from[i]);
      }
    }
  }
  for (int64_t t = rows.count; t < rows.length; ++t, to += rows.stride) {
    std::fill_n(to, rows.size, T{});
  }
}

void read(Numbers from, const AttentionKernel::HeadRows& rows, float scale, HugeBuffer& to) {
  from.is_bf16 ? read_rows(from.as<BFloat16>(), rows, scale, to.data())
               : read_rows(from.as<float>(), rows, scale, to.data());
}

void write(const HugeBuffer& from, const AttentionKernel::HeadRows& rows, float scale, Numbers to) {
  to.is_bf16 ? write_rows(from.floats().data(), rows, scale, to.as<BFloat16>())
             : write_rows(from.floats().data(), rows, scale, to.as<float>());
}

/// Mask of the first `count` lanes.
DLFLOW_INLINE IntLanes before(int64_t count) {
  const IntLanes lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < int32_t(count);
}

/// The keys of a row of pairs; those after the visible ones have the probability 0.
struct RowKeys {
  int64_t visible, all;
};

/// Replaces the visible scores of a row by exp(score - highest so far) and the others by 0,
/// and updates `highest` and `sum`. Returns the factor that rescales earlier sums.
DLFLOW_VECTOR_CLONES
float take_row(float* row, RowKeys keys, float& highest, float& sum) {
  const Lanes low = broadcast(-INFINITY);
  Lanes best = broadcast(highest);
  for (int64_t at = 0; at < keys.visible; at += kLanes) {
    best = maximum(select(before(keys.visible - at), load<true>(row + at, kLanes), low), best);
  }
  float new_highest = highest;
  for (int64_t i = 0; i < kLanes; ++i) new_highest = std::max(new_highest, best[i]);
  Lanes total = {};
  for (int64_t at = 0; at < keys.all; at += kLanes) {
    const Lanes powers = exponential(load<true>(row + at, kLanes) - new_highest);
    const Lanes counted = select(before(keys.visible - at), powers, Lanes{});
    store<true>(row + at, counted, kLanes);
    total += counted;
  }
  const float factor = std::exp(highest - new_highest);
  highest = new_highest;
  sum = sum * factor + sum_of(total);
  return factor;
}

/// row = exp(row - logarithm) for the visible keys, 0 for the others; gradient = row * (gradient -
/// product).
DLFLOW_VECTOR_CLONES
void finish_row(float* row, float* gradient, RowKeys keys, float logarithm, float product) {
  for (int64_t at = 0; at < keys.all; at += kLanes) {
    const Lanes powers = exponential(load<true>(row + at, kLanes) - logarithm);
    const Lanes counted = select(before(keys.visible - at), powers, Lanes{});
    store<true>(row + at, counted, kLanes);
    store<true>(gradient + at, counted * (load<true>(gradient + at, kLanes) - product), kLanes);
  }
}

DLFLOW_VECTOR_CLONES
void scale_row(float* row, int64_t count, float factor) {
  for (int64_t at = 0; at < count; at += kLanes) {
    store<true>(row + at, load<true>(row + at, kLanes) * factor, kLanes);
  }
}

DLFLOW_VECTOR_CLONES
float product_of_rows(const float* a, const float* b, int64_t count) {
  Lanes sum = {};
  for (int64_t at = 0; at < count; at += kLanes) {
    sum += load<true>(a + at, kLanes) * load<true>(b + at, kLanes);
  }
  return sum_of(sum);
}

}  // namespace

AttentionKernel::AttentionKernel(const AttentionShape& shape)
    : shape_(shape),
      length_(whole(shape.length, kStrip)),
      size_(whole(shape.size, kLanes)),
      scale_(float(1 / std::sqrt(double(shape.size)))),
      powers_(size_t(kQueries * kKeys)),
      slopes_(powers_.size()) {
  for (auto* panel : {&q_, &k_, &v_, &o_, &dq_, &dk_, &dv_, &do_, &turned_k_, &turned_v_}) {
    *panel = HugeBuffer(size_t(length_ * size_));
  }
  logarithms_.resize(size_t(shape.batch * shape.heads * length_));
  products_.resize(size_t(length_));
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

/// The two halves of a row hold the coordinates of `size / 2` points.
void AttentionKernel::rotate(HugeBuffer& panel, float direction) const {
  if (!shape_.rotary) return;
  const int64_t half = shape_.size / 2;
  for (int64_t t = 0; t < count_; ++t) {
    float* x = panel.data() + t * size_;
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

void AttentionKernel::begin_sample(int64_t sample, std::span<const float> lengths) {
  count_ = lengths.empty() ? shape_.length : int64_t(lengths[size_t(sample)]);
  DLFLOW_CHECK(count_ > 0 && count_ <= shape_.length);
  end_ = whole(count_, kStrip);
}

/// Part `index` (one head's size) of a tensor whose rows have `features` numbers.
AttentionKernel::HeadRows AttentionKernel::head_rows(int64_t sample, int64_t index,
                                                     int64_t features) const {
  return {sample * shape_.length * features + index * shape_.size,
          features,
          count_,
          shape_.length,
          shape_.size,
          size_};
}

/// The input's parts are the queries of all heads, then the keys, then the values.
AttentionKernel::HeadRows AttentionKernel::input_rows(int64_t sample, int64_t index) const {
  return head_rows(sample, index, shape_.input_features());
}

AttentionKernel::HeadRows AttentionKernel::result_rows(int64_t sample, int64_t head) const {
  return head_rows(sample, head, shape_.result_features());
}

void AttentionKernel::read_keys(Numbers x, int64_t sample, int64_t kv_head) {
  read(x, input_rows(sample, shape_.heads + kv_head), 1, k_);
  read(x, input_rows(sample, shape_.heads + shape_.kv_heads + kv_head), 1, v_);
  rotate(k_, 1);
  transpose_block(end_, size_, {k_.data(), size_}, {turned_k_.data(), length_});
}

void AttentionKernel::read_queries(Numbers x, int64_t sample, int64_t head) {
  read(x, input_rows(sample, head), scale_, q_);
  rotate(q_, 1);
}

/// Number of keys from `column` on that the query attends to.
int64_t AttentionKernel::visible(int64_t query, int64_t column, int64_t columns) const {
  const int64_t end = shape_.causal ? std::min(query + 1, count_) : count_;
  return std::min(end - column, columns);
}

void AttentionKernel::forward(Numbers x, Numbers y, std::span<const float> lengths) {
  const int64_t group = shape_.heads / shape_.kv_heads;
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    begin_sample(sample, lengths);
    for (int64_t head = 0; head < shape_.heads; ++head) {
      if (head % group == 0) read_keys(x, sample, head / group);
      read_queries(x, sample, head);
      float* logarithms = logarithms_.data() + (sample * shape_.heads + head) * length_;
      for (int64_t first = 0; first < end_; first += kStrip) forward_strip(first, logarithms);
      write(o_, result_rows(sample, head), 1, y);
    }
  }
}

void AttentionKernel::forward_strip(int64_t first, float* logarithms) {
  std::array<float, kStrip> highest, sums = {};
  highest.fill(-INFINITY);
  float* o = o_.data() + first * size_;
  const int64_t end = shape_.causal ? first + kStrip : end_;
  for (int64_t column = 0; column < end; column += kKeys) {
    const int64_t columns = std::min(kKeys, end - column);
    multiply_block({kStrip, columns, shape_.size}, {q_.data() + first * size_, size_},
                   {turned_k_.data() + column, length_}, Into::Replaced, {powers_.data(), kKeys});
    for (int64_t r = 0; r < kStrip; ++r) {
      const RowKeys keys = {visible(first + r, column, columns), columns};
      const float factor =
          take_row(powers_.data() + r * kKeys, keys, highest[size_t(r)], sums[size_t(r)]);
      if (column > 0) scale_row(o + r * size_, size_, factor);
    }
    multiply_block({kStrip, size_, columns}, {powers_.data(), kKeys},
                   {v_.data() + column * size_, size_}, column == 0 ? Into::Replaced : Into::Added,
                   {o, size_});
  }
  for (int64_t r = 0; r < kStrip; ++r) {
    scale_row(o + r * size_, size_, 1 / sums[size_t(r)]);
    logarithms[first + r] = highest[size_t(r)] + std::log(sums[size_t(r)]);
  }
}

void AttentionKernel::backward(Numbers x, Numbers y, Numbers dy, Numbers dx,
                               std::span<const float> lengths) {
  const int64_t group = shape_.heads / shape_.kv_heads;
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    begin_sample(sample, lengths);
    for (int64_t head = 0; head < shape_.heads; ++head) {
      if (head % group == 0) {
        read_keys(x, sample, head / group);
        transpose_block(end_, size_, {v_.data(), size_}, {turned_v_.data(), length_});
        std::ranges::fill(dk_.floats(), 0.0f);
        std::ranges::fill(dv_.floats(), 0.0f);
      }
      read_queries(x, sample, head);
      read(y, result_rows(sample, head), 1, o_);
      read(dy, result_rows(sample, head), 1, do_);
      for (int64_t t = 0; t < end_; ++t) {
        products_[size_t(t)] =
            product_of_rows(o_.data() + t * size_, do_.data() + t * size_, size_);
      }
      const float* logarithms = logarithms_.data() + (sample * shape_.heads + head) * length_;
      for (int64_t first = 0; first < end_; first += kQueries) {
        backward_block(first, std::min(kQueries, end_ - first), logarithms);
      }
      rotate(dq_, -1);
      write(dq_, input_rows(sample, head), scale_, dx);
      if ((head + 1) % group != 0) continue;
      rotate(dk_, -1);
      write(dk_, input_rows(sample, shape_.heads + head / group), 1, dx);
      write(dv_, input_rows(sample, shape_.heads + shape_.kv_heads + head / group), 1, dx);
    }
  }
}

void AttentionKernel::backward_block(int64_t first, int64_t queries, const float* logarithms) {
  const int64_t end = shape_.causal ? first + queries : end_;
  for (int64_t column = 0; column < end; column += kKeys) {
    const int64_t columns = std::min(kKeys, end - column);
    for (int64_t r = 0; r < queries; r += kStrip) {
      const int64_t reach =
          shape_.causal ? std::min(columns, first + r + kStrip - column) : columns;
      backward_strip(first, r, column, reach, logarithms);
    }
    add_to_keys(first, queries, column, columns);
  }
}

/// The strip begins at row `row` of the block that begins at query `first`.
void AttentionKernel::backward_strip(int64_t first, int64_t row, int64_t column, int64_t columns,
                                     const float* logarithms) {
  const int64_t query = first + row;
  float *const powers = powers_.data() + row * kKeys, *const slopes = slopes_.data() + row * kKeys;
  const ProductExtent pairs = {kStrip, columns, shape_.size};
  multiply_block(pairs, {q_.data() + query * size_, size_}, {turned_k_.data() + column, length_},
                 Into::Replaced, {powers, kKeys});
  multiply_block(pairs, {do_.data() + query * size_, size_}, {turned_v_.data() + column, length_},
                 Into::Replaced, {slopes, kKeys});
  for (int64_t r = 0; r < kStrip; ++r) {
    finish_row(powers + r * kKeys, slopes + r * kKeys,
               {visible(query + r, column, columns), columns}, logarithms[query + r],
               products_[size_t(query + r)]);
  }
  multiply_block({kStrip, size_, columns}, {slopes, kKeys}, {k_.data() + column * size_, size_},
                 column == 0 ? Into::Replaced : Into::Added, {dq_.data() + query * size_, size_});
}

/// Adds the block's part of the gradients of keys and values.
void AttentionKernel::add_to_keys(int64_t first, int64_t queries, int64_t column, int64_t columns) {
  for (int64_t c = 0; c < columns; c += kStrip) {
    const int64_t before = shape_.causal ? std::max<int64_t>(0, column + c - first) : 0;
    const ProductExtent extent = {kStrip, size_, queries - before};
    const int64_t pairs = before * kKeys + c, query = (first + before) * size_;
    const int64_t key = (column + c) * size_;
    multiply_transposed_block(extent, {powers_.data() + pairs, kKeys}, {do_.data() + query, size_},
                              Into::Added, {dv_.data() + key, size_});
    multiply_transposed_block(extent, {slopes_.data() + pairs, kKeys}, {q_.data() + query, size_},
                              Into::Added, {dk_.data() + key, size_});
  }
}

}  // namespace dlflow::runtime
