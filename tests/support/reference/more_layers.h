#pragma once

#include "tests/support/reference/layers.h"

/// The layers beyond those of tests/support/reference/layers.h: normalisation of rows and groups,
/// attention, tokens, and layers that resize maps.
namespace dlflow::runtime::reference {

/// Numbers that are normalised together: the index of each in the tensor, and of its weight.
struct Set {
  std::vector<size_t> places = {}, weights = {};
};

/// The sets along the last dimension.
template <typename T>
std::vector<Set> rows_of(const TensorOf<T>& x) {
  const auto features = size_t(x.shape.back());
  std::vector<Set> sets(x.values.size() / features);
  for (size_t i = 0; i < x.values.size(); ++i) {
    sets[i / features].places.push_back(i);
    sets[i / features].weights.push_back(i % features);
  }
  return sets;
}

/// The sets of each image and C / groups neighbouring channels of (B,C,H,W).
template <typename T>
std::vector<Set> groups_of(const TensorOf<T>& x, int64_t groups) {
  const size_t each = count(x.shape, 1) / size_t(groups);
  std::vector<Set> sets(x.values.size() / each);
  for (size_t i = 0; i < x.values.size(); ++i) {
    sets[i / each].places.push_back(i);
    sets[i / each].weights.push_back(channel_of(x, i));
  }
  return sets;
}

/// y = (x - mean) / sqrt(variance + 1e-5) * weight + bias within each set; without `centred`, the
/// mean counts as 0. `bias` may be empty.
template <typename T>
TensorOf<T> norm(const std::vector<Set>& sets, const TensorOf<T>& x, const TensorOf<T>& weight,
                 const TensorOf<T>& bias, bool centred = true) {
  TensorOf<T> y(x.shape);
  for (const Set& set : sets) {
    const double n = double(set.places.size());
    T mean = 0, square = 0;
    for (const size_t i : set.places) mean += centred ? x[i] / n : T(0);
    for (const size_t i : set.places) square += (x[i] - mean) * (x[i] - mean) / n;
    for (size_t k = 0; k < set.places.size(); ++k) {
      const size_t i = set.places[k], w = set.weights[k];
      y[i] = (x[i] - mean) / sqrt(square + kEpsilon) * weight[w];
      if (!bias.values.empty()) y[i] += bias[w];
    }
  }
  return y;
}

/// Along the last dimension.
template <typename T>
TensorOf<T> softmax(const TensorOf<T>& x) {
  TensorOf<T> y(x.shape);
  for (const Set& set : rows_of(x)) {
    T sum = 0;
    for (const size_t i : set.places) sum += exp(x[i]);
    for (const size_t i : set.places) y[i] = exp(x[i]) / sum;
  }
  return y;
}

/// (B,C,H,W) -> (B,C,size): means of rows floor(i H / H') to ceil((i + 1) H / H'), as in PyTorch.
template <typename T>
TensorOf<T> adaptive_avg_pool(const TensorOf<T>& x, Extent size) {
  TensorOf<T> y({x.shape[0], x.shape[1], size.height, size.width});
  const int64_t height = x.shape[2], width = x.shape[3];
  for (int64_t to = 0; to < int64_t(y.values.size()); ++to) {
    const int64_t map = to / size.width / size.height;
    const int64_t i = to / size.width % size.height, j = to % size.width;
    const int64_t top = i * height / size.height, left = j * width / size.width;
    const int64_t bottom = ((i + 1) * height + size.height - 1) / size.height;
    const int64_t right = ((j + 1) * width + size.width - 1) / size.width;
    for (int64_t a = top; a < bottom; ++a) {
      for (int64_t b = left; b < right; ++b) {
        y[size_t(to)] +=
            x[size_t((map * height + a) * width + b)] / double((bottom - top) * (right - left));
      }
    }
  }
  return y;
}

/// Each pixel becomes a square of `scale` x `scale`.
template <typename T>
TensorOf<T> upsample(const TensorOf<T>& x, int64_t scale) {
  TensorOf<T> y({x.shape[0], x.shape[1], x.shape[2] * scale, x.shape[3] * scale});
  const auto width = size_t(y.shape[3]), height = size_t(y.shape[2]), step = size_t(scale);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t map = i / width / height, row = i / width % height / step;
    y[i] = x[(map * (height / step) + row) * (width / step) + i % width / step];
  }
  return y;
}

/// Concatenates along `dimension`.
template <typename T>
TensorOf<T> concat(std::span<const TensorOf<T>> inputs, size_t dimension) {
  std::vector<int64_t> shape = inputs[0].shape;
  shape[dimension] = 0;
  for (const TensorOf<T>& x : inputs) shape[dimension] += x.shape[dimension];
  TensorOf<T> y(shape);
  size_t first = 0;
  for (const TensorOf<T>& x : inputs) {
    const size_t run = count(x.shape, dimension);
    for (size_t i = 0; i < x.values.size(); ++i) {
      y[i / run * count(shape, dimension) + first + i % run] = x[i];
    }
    first += run;
  }
  return y;
}

/// (B,T) numbers of tokens, weight (V,F) -> (B,T,F)
template <typename T>
TensorOf<T> embedding(const TensorOf<T>& tokens, const TensorOf<T>& weight) {
  const auto features = size_t(weight.shape[1]);
  TensorOf<T> y({tokens.shape[0], tokens.shape[1], weight.shape[1]});
  for (size_t i = 0; i < y.values.size(); ++i) {
    y[i] = weight[size_t(value_of(tokens[i / features])) * features + i % features];
  }
  return y;
}

/// The number of leading positions that count in each sample; empty: all do.
using Lengths = std::span<const float>;

/// The number of positions that count in sample b of (B,T,F).
template <typename T>
size_t count_of(const TensorOf<T>& x, Lengths lengths, size_t b) {
  return lengths.empty() ? size_t(x.shape[1]) : size_t(lengths[b]);
}

struct Heads {
  int64_t queries = 1, keys = 1;
  bool causal = true, rotary = false;
};

/// The `size` numbers from `first` on, as those of position t, rotated if `rotary`.
template <typename T>
std::vector<T> read_rotated(const TensorOf<T>& x, size_t first, size_t size, size_t t,
                            bool rotary) {
  std::vector<T> numbers(x.values.begin() + long(first), x.values.begin() + long(first + size));
  const size_t half = rotary ? size / 2 : 0;
  for (size_t i = 0; i < half; ++i) {
    const double angle = double(t) * std::pow(10000.0, -double(i) / double(half));
    const T a = numbers[i], b = numbers[i + half];
    numbers[i] = a * std::cos(angle) - b * std::sin(angle);
    numbers[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
  return numbers;
}

/// Adds the result of one head of sample b to `y`.
template <typename T>
void add_head(const TensorOf<T>& x, const Heads& heads, size_t b, size_t head, size_t visible,
              TensorOf<T>& y) {
  const auto queries = size_t(heads.queries), keys = size_t(heads.keys);
  const auto length = size_t(x.shape[1]), all = size_t(x.shape[2]);
  const size_t size = all / (queries + 2 * keys), of_keys = head / (queries / keys);
  const auto row = [&](size_t t) { return (b * length + t) * all; };
  std::vector<std::vector<T>> k;
  for (size_t t = 0; t < visible; ++t) {
    k.push_back(read_rotated(x, row(t) + (queries + of_keys) * size, size, t, heads.rotary));
  }
  for (size_t t = 0; t < visible; ++t) {
    const std::vector<T> q = read_rotated(x, row(t) + head * size, size, t, heads.rotary);
    std::vector<T> shares(heads.causal ? t + 1 : visible);
    T sum = 0;
    for (size_t s = 0; s < shares.size(); ++s) {
      T product = 0;
      for (size_t i = 0; i < size; ++i) product += q[i] * k[s][i];
      shares[s] = exp(product / std::sqrt(double(size)));
      sum += shares[s];
    }
    for (size_t s = 0; s < shares.size(); ++s) {
      const size_t value = row(s) + (queries + keys + of_keys) * size;
      const size_t to = ((b * length + t) * queries + head) * size;
      for (size_t i = 0; i < size; ++i) y[to + i] += shares[s] / sum * x[value + i];
    }
  }
}

/// (B,T,(queries + 2 keys) D) -> (B,T,queries D): softmax(q k' / sqrt(D)) v of each head, over the
/// positions that count; 0 at the others.
template <typename T>
TensorOf<T> attention(const TensorOf<T>& x, const Heads& heads, Lengths lengths) {
  const int64_t size = x.shape[2] / (heads.queries + 2 * heads.keys);
  TensorOf<T> y({x.shape[0], x.shape[1], heads.queries * size});
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    for (size_t head = 0; head < size_t(heads.queries); ++head) {
      add_head(x, heads, b, head, count_of(x, lengths, b), y);
    }
  }
  return y;
}

/// (B,T,F) -> (B,F): the mean over the positions that count.
template <typename T>
TensorOf<T> mean_pool(const TensorOf<T>& x, Lengths lengths) {
  const auto features = size_t(x.shape[2]);
  TensorOf<T> y({x.shape[0], x.shape[2]});
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    const size_t count = count_of(x, lengths, b), first = b * size_t(x.shape[1]) * features;
    for (size_t i = 0; i < count * features; ++i) {
      y[b * features + i % features] += x[first + i] / double(count);
    }
  }
  return y;
}

}  // namespace dlflow::runtime::reference
