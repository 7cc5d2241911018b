#include "runtime/nn/reference/more_layers.h"

#include <cmath>
#include <utility>

namespace dlflow::runtime::reference {
namespace {

constexpr double kRowEpsilon = 1e-5;

/// Numbers that are normalised together: the index of each in the tensor, and of its weight.
struct Set {
  bool centred = true;
  std::vector<size_t> places = {}, weights = {};
};

/// The mean (0 unless `centred`), and the mean squared distance from it.
std::pair<double, double> moments_of(const Set& set, const Tensor& x) {
  const double n = double(set.places.size());
  double mean = 0, square = 0;
  for (const size_t i : set.places) mean += set.centred ? x[i] / n : 0;
  for (const size_t i : set.places) square += (x[i] - mean) * (x[i] - mean) / n;
  return {mean, square};
}

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias within the set.
void normalise(const Set& set, const Tensor& x, const Tensor& weight, const Tensor& bias,
               Tensor& y) {
  const auto [mean, square] = moments_of(set, x);
  for (size_t k = 0; k < set.places.size(); ++k) {
    const size_t i = set.places[k], w = set.weights[k];
    y[i] = (x[i] - mean) / std::sqrt(square + kRowEpsilon) * weight[w] +
           (bias.values.empty() ? 0 : bias[w]);
  }
}

void normalise_backward(const Set& set, const Tensor& x, const Tensor& weight, const Tensor& dy,
                        Gradients& d) {
  const double n = double(set.places.size());
  const auto [mean, square] = moments_of(set, x);
  const double scale = 1 / std::sqrt(square + kRowEpsilon);
  double sum = 0, along = 0;
  for (size_t k = 0; k < set.places.size(); ++k) {
    const size_t i = set.places[k], w = set.weights[k];
    const double normal = (x[i] - mean) * scale;
    d.weight[w] += dy[i] * normal;
    d.bias[w] += dy[i];
    sum += set.centred ? dy[i] * weight[w] / n : 0;
    along += dy[i] * weight[w] * normal / n;
  }
  for (size_t k = 0; k < set.places.size(); ++k) {
    const size_t i = set.places[k], w = set.weights[k];
    d.x[i] = scale * (dy[i] * weight[w] - sum - (x[i] - mean) * scale * along);
  }
}

std::vector<Set> rows_of(const Tensor& x, bool centred = true) {
  const auto features = size_t(x.shape.back());
  std::vector<Set> sets(x.values.size() / features, Set{centred});
  for (size_t i = 0; i < x.values.size(); ++i) {
    sets[i / features].places.push_back(i);
    sets[i / features].weights.push_back(i % features);
  }
  return sets;
}

std::vector<Set> groups_of(const Tensor& x, int64_t groups) {
  const auto channels = size_t(x.shape[1]), pixels = size_t(x.shape[2] * x.shape[3]);
  const size_t each = channels / size_t(groups) * pixels;
  std::vector<Set> sets(x.values.size() / each);
  for (size_t i = 0; i < x.values.size(); ++i) {
    sets[i / each].places.push_back(i);
    sets[i / each].weights.push_back(i / pixels % channels);
  }
  return sets;
}

Tensor norm(const std::vector<Set>& sets, const Tensor& x, const Tensor& weight,
            const Tensor& bias) {
  Tensor y(x.shape);
  for (const Set& set : sets) normalise(set, x, weight, bias, y);
  return y;
}

Gradients norm_backward(const std::vector<Set>& sets, const Tensor& x, const Tensor& weight,
                        const Tensor& dy) {
  Gradients d{Tensor(x.shape), Tensor(weight.shape), Tensor(weight.shape)};
  for (const Set& set : sets) normalise_backward(set, x, weight, dy, d);
  return d;
}

/// Calls visit(index in x, index in y, share) for all pairs of adaptive pooling.
template <typename Visit>
void for_each_adaptive(const Tensor& x, const Tensor& y, Visit visit) {
  const int64_t height = x.shape[2], width = x.shape[3], rows = y.shape[2], columns = y.shape[3];
  for (int64_t map = 0; map < x.shape[0] * x.shape[1]; ++map) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t top = i * height / rows, bottom = ((i + 1) * height + rows - 1) / rows;
        const int64_t left = j * width / columns;
        const int64_t right = ((j + 1) * width + columns - 1) / columns;
        for (int64_t a = top; a < bottom; ++a) {
          for (int64_t b = left; b < right; ++b) {
            visit(size_t((map * height + a) * width + b), size_t((map * rows + i) * columns + j),
                  1.0 / double((bottom - top) * (right - left)));
          }
        }
      }
    }
  }
}

/// Calls visit(index in x, index in y) for all pairs of upsampling.
template <typename Visit>
void for_each_upsampled(const Tensor& x, int64_t scale, Visit visit) {
  const int64_t height = x.shape[2] * scale, width = x.shape[3] * scale;
  for (int64_t map = 0; map < x.shape[0] * x.shape[1]; ++map) {
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        visit(size_t((map * x.shape[2] + i / scale) * x.shape[3] + j / scale),
              size_t((map * height + i) * width + j));
      }
    }
  }
}

/// Length of a contiguous run: the product of all dimensions from `dimension` on.
size_t run_of(const Tensor& x, size_t dimension) {
  size_t run = 1;
  for (size_t i = dimension; i < x.shape.size(); ++i) run *= size_t(x.shape[i]);
  return run;
}

/// Calls visit(index in the result, input, index in the input) for all numbers.
template <typename Visit>
void for_each_joined(const std::vector<const Tensor*>& inputs, size_t dimension, Visit visit) {
  size_t whole = 0;
  for (const Tensor* x : inputs) whole += run_of(*x, dimension);
  size_t first = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const size_t run = run_of(*inputs[k], dimension);
    for (size_t i = 0; i < inputs[k]->values.size(); ++i) {
      visit(i / run * whole + first + i % run, k, i);
    }
    first += run;
  }
}

/// One head of one sample: q, k and v (T,D), rotated if `rotary` is set.
struct Head {
  const Tensor& x;
  const Heads& heads;
  size_t sample, head, length, size;
  size_t count;  ///< number of leading positions that are visible

  size_t row(size_t t) const {
    return (sample * length + t) * size_t(heads.queries + 2 * heads.keys) * size;
  }
  size_t kv() const { return head / size_t(heads.queries / heads.keys); }
  size_t query(size_t t) const { return row(t) + head * size; }
  size_t key(size_t t) const { return row(t) + (size_t(heads.queries) + kv()) * size; }
  size_t value(size_t t) const { return key(t) + size_t(heads.keys) * size; }
  size_t visible(size_t t) const { return heads.causal ? t + 1 : count; }

  /// `numbers`, of position t, rotated by `direction` times its angles.
  std::vector<double> rotated(std::vector<double> numbers, size_t t, double direction) const {
    if (!heads.rotary) return numbers;
    const size_t half = size / 2;
    for (size_t i = 0; i < half; ++i) {
      const double angle = direction * double(t) * std::pow(10000.0, -double(i) / double(half));
      const double a = numbers[i], b = numbers[i + half];
      numbers[i] = a * std::cos(angle) - b * std::sin(angle);
      numbers[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
    return numbers;
  }

  std::vector<double> read(size_t first) const {
    return {x.values.begin() + long(first), x.values.begin() + long(first + size)};
  }
  std::vector<double> rotated_query(size_t t) const { return rotated(read(query(t)), t, 1); }
  std::vector<double> rotated_key(size_t t) const { return rotated(read(key(t)), t, 1); }

  /// The attention weights of position t over the positions it sees.
  std::vector<double> shares(size_t t) const {
    const std::vector<double> q = rotated_query(t);
    std::vector<double> shares(visible(t));
    double sum = 0;
    for (size_t s = 0; s < shares.size(); ++s) {
      const std::vector<double> k = rotated_key(s);
      double product = 0;
      for (size_t i = 0; i < size; ++i) product += q[i] * k[i];
      sum += shares[s] = std::exp(product / std::sqrt(double(size)));
    }
    for (double& share : shares) share /= sum;
    return shares;
  }
};

/// The number of positions that count in sample b of (B,T,F).
size_t count_of(const Tensor& x, Lengths lengths, size_t b) {
  return lengths.empty() ? size_t(x.shape[1]) : size_t(lengths[b]);
}

template <typename Visit>
void for_each_head(const Tensor& x, const Heads& heads, Lengths lengths, Visit visit) {
  const auto size = size_t(x.shape[2] / (heads.queries + 2 * heads.keys));
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    for (size_t h = 0; h < size_t(heads.queries); ++h) {
      visit(Head{x, heads, b, h, size_t(x.shape[1]), size, count_of(x, lengths, b)});
    }
  }
}

}  // namespace

Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups) {
  return norm(groups_of(x, groups), x, weight, bias);
}

Gradients group_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                              int64_t groups) {
  return norm_backward(groups_of(x, groups), x, weight, dy);
}

Tensor row_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, bool centred) {
  return norm(rows_of(x, centred), x, weight, bias);
}

Gradients row_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, bool centred) {
  return norm_backward(rows_of(x, centred), x, weight, dy);
}

Tensor softmax(const Tensor& x) {
  Tensor y(x.shape);
  for (const Set& set : rows_of(x)) {
    double sum = 0;
    for (const size_t i : set.places) sum += std::exp(x[i]);
    for (const size_t i : set.places) y[i] = std::exp(x[i]) / sum;
  }
  return y;
}

Tensor softmax_backward(const Tensor& y, const Tensor& dy) {
  Tensor dx(y.shape);
  for (const Set& set : rows_of(y)) {
    double along = 0;
    for (const size_t i : set.places) along += y[i] * dy[i];
    for (const size_t i : set.places) dx[i] = y[i] * (dy[i] - along);
  }
  return dx;
}

Tensor adaptive_avg_pool(const Tensor& x, Extent size) {
  Tensor y({x.shape[0], x.shape[1], size.height, size.width});
  for_each_adaptive(x, y, [&](size_t i, size_t o, double share) { y[o] += x[i] * share; });
  return y;
}

Tensor adaptive_avg_pool_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx(x.shape);
  for_each_adaptive(x, dy, [&](size_t i, size_t o, double share) { dx[i] += dy[o] * share; });
  return dx;
}

Tensor upsample(const Tensor& x, int64_t scale) {
  Tensor y({x.shape[0], x.shape[1], x.shape[2] * scale, x.shape[3] * scale});
  for_each_upsampled(x, scale, [&](size_t i, size_t o) { y[o] = x[i]; });
  return y;
}

Tensor upsample_backward(const Tensor& x, const Tensor& dy, int64_t scale) {
  Tensor dx(x.shape);
  for_each_upsampled(x, scale, [&](size_t i, size_t o) { dx[i] += dy[o]; });
  return dx;
}

Tensor concat(const std::vector<const Tensor*>& inputs, size_t dimension) {
  std::vector<int64_t> shape = inputs[0]->shape;
  for (size_t k = 1; k < inputs.size(); ++k) shape[dimension] += inputs[k]->shape[dimension];
  Tensor y(shape);
  for_each_joined(inputs, dimension,
                  [&](size_t to, size_t k, size_t from) { y[to] = (*inputs[k])[from]; });
  return y;
}

std::vector<Tensor> split(const Tensor& dy, const std::vector<const Tensor*>& inputs,
                          size_t dimension) {
  std::vector<Tensor> gradients;
  for (const Tensor* x : inputs) gradients.emplace_back(x->shape);
  for_each_joined(inputs, dimension,
                  [&](size_t from, size_t k, size_t to) { gradients[k][to] = dy[from]; });
  return gradients;
}

Tensor embedding(const Tensor& tokens, const Tensor& weight) {
  const auto features = size_t(weight.shape[1]);
  Tensor y({tokens.shape[0], tokens.shape[1], weight.shape[1]});
  for (size_t i = 0; i < y.values.size(); ++i) {
    y[i] = weight[size_t(tokens[i / features]) * features + i % features];
  }
  return y;
}

Tensor embedding_backward(const Tensor& tokens, const Tensor& weight, const Tensor& dy) {
  const auto features = size_t(weight.shape[1]);
  Tensor d(weight.shape);
  for (size_t i = 0; i < dy.values.size(); ++i) {
    d[size_t(tokens[i / features]) * features + i % features] += dy[i];
  }
  return d;
}

Tensor attention(const Tensor& x, const Heads& heads, Lengths lengths) {
  const int64_t size = x.shape[2] / (heads.queries + 2 * heads.keys);
  Tensor y({x.shape[0], x.shape[1], heads.queries * size});
  for_each_head(x, heads, lengths, [&](const Head& h) {
    for (size_t t = 0; t < h.count; ++t) {
      const std::vector<double> shares = h.shares(t);
      const size_t to = ((h.sample * h.length + t) * size_t(heads.queries) + h.head) * h.size;
      for (size_t s = 0; s < shares.size(); ++s) {
        for (size_t i = 0; i < h.size; ++i) y[to + i] += shares[s] * x[h.value(s) + i];
      }
    }
  });
  return y;
}

Tensor attention_backward(const Tensor& x, const Tensor& dy, const Heads& heads, Lengths lengths) {
  Tensor dx(x.shape);
  for_each_head(x, heads, lengths, [&](const Head& h) {
    const double scale = 1 / std::sqrt(double(h.size));
    for (size_t t = 0; t < h.count; ++t) {
      const std::vector<double> shares = h.shares(t), q = h.rotated_query(t);
      const size_t from = ((h.sample * h.length + t) * size_t(heads.queries) + h.head) * h.size;
      std::vector<double> slopes(shares.size()), dq(h.size);
      double along = 0;
      for (size_t s = 0; s < shares.size(); ++s) {
        for (size_t i = 0; i < h.size; ++i) {
          slopes[s] += dy[from + i] * x[h.value(s) + i];
          dx[h.value(s) + i] += dy[from + i] * shares[s];
        }
        along += shares[s] * slopes[s];
      }
      for (size_t s = 0; s < shares.size(); ++s) {
        const double slope = shares[s] * (slopes[s] - along) * scale;
        const std::vector<double> k = h.rotated_key(s);
        std::vector<double> dk(h.size);
        for (size_t i = 0; i < h.size; ++i) {
          dq[i] += slope * k[i];
          dk[i] = slope * q[i];
        }
        dk = h.rotated(dk, s, -1);
        for (size_t i = 0; i < h.size; ++i) dx[h.key(s) + i] += dk[i];
      }
      dq = h.rotated(dq, t, -1);
      for (size_t i = 0; i < h.size; ++i) dx[h.query(t) + i] += dq[i];
    }
  });
  return dx;
}

Tensor mean_pool(const Tensor& x, Lengths lengths) {
  const auto features = size_t(x.shape[2]);
  Tensor y({x.shape[0], x.shape[2]});
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    const size_t count = count_of(x, lengths, b), first = b * size_t(x.shape[1]) * features;
    for (size_t i = 0; i < count * features; ++i) {
      y[b * features + i % features] += x[first + i] / double(count);
    }
  }
  return y;
}

Tensor mean_pool_backward(const Tensor& x, const Tensor& dy, Lengths lengths) {
  const auto features = size_t(x.shape[2]);
  Tensor dx(x.shape);
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    const size_t count = count_of(x, lengths, b), first = b * size_t(x.shape[1]) * features;
    for (size_t i = 0; i < count * features; ++i) {
      dx[first + i] = dy[b * features + i % features] / double(count);
    }
  }
  return dx;
}

}  // namespace dlflow::runtime::reference
