#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "runtime/nn/model.h"
#include "tests/support/reference/number.h"

/// Every layer in plain C++ and double precision, as the reference for the fast ones. Slow, and
/// written to be read beside the formulas. Layers compute with `double`, or with Number for
/// gradients. Shape letters as in runtime/nn/model.h; O output channels or features, K kernel.
namespace dlflow::runtime::reference {

/// The product of the sizes from dimension `from` on.
inline size_t count(const std::vector<int64_t>& shape, size_t from = 0) {
  return size_t(
      std::accumulate(shape.begin() + int64_t(from), shape.end(), int64_t(1), std::multiplies<>()));
}

/// Numbers in row-major order.
template <typename T>
struct TensorOf {
  std::vector<int64_t> shape;
  std::vector<T> values;

  explicit TensorOf(std::vector<int64_t> tensor_shape = {})
      : shape(std::move(tensor_shape)), values(shape.empty() ? 0 : count(shape)) {}
  T& operator[](size_t i) { return values[i]; }
  const T& operator[](size_t i) const { return values[i]; }
};

using Tensor = TensorOf<double>;

/// Returns the gradients of sum(dy * layer(arguments)) with respect to each of the `arguments`.
/// `layer` takes them as a vector of TensorOf<Number>, and returns such a tensor.
template <typename Layer>
std::vector<Tensor> gradients_of(const std::vector<Tensor>& arguments, const Tensor& dy,
                                 const Layer& layer) {
  Record record;
  std::vector<TensorOf<Number>> variables;
  for (const Tensor& argument : arguments) {
    TensorOf<Number>& tensor = variables.emplace_back(argument.shape);
    for (size_t i = 0; i < tensor.values.size(); ++i) tensor[i] = record.variable(argument[i]);
  }
  const TensorOf<Number> y = layer(variables);
  const std::vector<double> all = record.gradients(y.values, dy.values);
  std::vector<Tensor> gradients;
  auto at = all.begin();
  for (const Tensor& argument : arguments) {
    Tensor& gradient = gradients.emplace_back(argument.shape);
    std::copy_n(at, gradient.values.size(), gradient.values.begin());
    at += long(gradient.values.size());
  }
  return gradients;
}

/// Returns the gradient of loss(scores), a Number.
template <typename Loss>
Tensor gradient_of_loss(const Tensor& scores, const Loss& loss) {
  Tensor one({1});
  one[0] = 1;
  const auto layer = [&](const std::vector<TensorOf<Number>>& arguments) {
    TensorOf<Number> result({1});
    result[0] = loss(arguments[0]);
    return result;
  };
  return gradients_of({scores}, one, layer)[0];
}

/// The channel of element `i`, or its feature in (B,T,F).
template <typename T>
size_t channel_of(const TensorOf<T>& x, size_t i) {
  const bool is_sequence = x.shape.size() == 3;
  const size_t pixels = is_sequence ? 1 : count(x.shape, 2);
  return i / pixels % size_t(x.shape[is_sequence ? 2 : 1]);
}

struct Window {
  Extent kernel = 1;
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;

  /// The size of the result for maps of this size.
  Extent places(int64_t height, int64_t width) const {
    return {
        (height + 2 * padding.height - dilation.height * (kernel.height - 1) - 1) / stride.height +
            1,
        (width + 2 * padding.width - dilation.width * (kernel.width - 1) - 1) / stride.width + 1};
  }
};

/// Calls visit(output index, input index, kernel index) for every pixel under every window of one
/// map; the caller adds the offsets of channels.
template <typename Visit>
void for_each_pixel(int64_t height, int64_t width, const Window& w, Visit visit) {
  const Extent out = w.places(height, width);
  for (int64_t oy = 0; oy < out.height; ++oy) {
    for (int64_t ox = 0; ox < out.width; ++ox) {
      for (int64_t ky = 0; ky < w.kernel.height; ++ky) {
        for (int64_t kx = 0; kx < w.kernel.width; ++kx) {
          const int64_t iy = oy * w.stride.height + ky * w.dilation.height - w.padding.height;
          const int64_t ix = ox * w.stride.width + kx * w.dilation.width - w.padding.width;
          if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
          visit(size_t(oy * out.width + ox), size_t(iy * width + ix),
                size_t(ky * w.kernel.width + kx));
        }
      }
    }
  }
}

// Convolutions and linear layers are sums of products of an input and a weight. Their gradients
// need no record of the products, which would not fit into memory.

/// Calls visit(output, input, weight) for every multiplication of conv2d.
template <typename T, typename Visit>
void for_each_product(const TensorOf<T>& x, const TensorOf<T>& weight, const Window& w,
                      int64_t groups, Visit visit) {
  const size_t all_channels = size_t(x.shape[1]), channels = all_channels / size_t(groups);
  const size_t outputs = size_t(weight.shape[0]), square = count(weight.shape, 2);
  const Extent places = w.places(x.shape[2], x.shape[3]);
  const size_t in = count(x.shape, 2), out = size_t(places.height * places.width);
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    for (size_t o = 0; o < outputs; ++o) {
      const size_t first = o / (outputs / size_t(groups)) * channels;  // the group's first
      for (size_t c = 0; c < channels; ++c) {
        for_each_pixel(x.shape[2], x.shape[3], w, [&](size_t to, size_t from, size_t k) {
          visit((b * outputs + o) * out + to, (b * all_channels + first + c) * in + from,
                (o * channels + c) * square + k);
        });
      }
    }
  }
}

/// Calls for_each(visit), which calls visit(output, input, weight) for every multiplication.
template <typename T, typename ForEach>
TensorOf<T> product(const TensorOf<T>& x, const TensorOf<T>& weight, const TensorOf<T>& bias,
                    std::vector<int64_t> y_shape, const ForEach& for_each) {
  TensorOf<T> y(std::move(y_shape));
  for_each([&](size_t o, size_t i, size_t k) { y[o] += x[i] * weight[k]; });
  if (bias.values.empty()) return y;
  for (size_t i = 0; i < y.values.size(); ++i) y[i] += bias[channel_of(y, i)];
  return y;
}

/// The gradients of input, weight and bias.
template <typename ForEach>
std::vector<Tensor> product_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                     const ForEach& for_each) {
  Tensor dx(x.shape), dw(weight.shape), db({dy.shape[dy.shape.size() == 3 ? 2 : 1]});
  for_each([&](size_t o, size_t i, size_t k) {
    dx[i] += dy[o] * weight[k];
    dw[k] += dy[o] * x[i];
  });
  for (size_t i = 0; i < dy.values.size(); ++i) db[channel_of(dy, i)] += dy[i];
  return {dx, dw, db};
}

/// (B,C,H,W), weight (O,C/groups,K,K), bias (O) or empty -> (B,O,H',W').
template <typename T>
TensorOf<T> conv2d(const TensorOf<T>& x, const TensorOf<T>& weight, const TensorOf<T>& bias,
                   const Window& window, int64_t groups = 1) {
  const Extent places = window.places(x.shape[2], x.shape[3]);
  return product(x, weight, bias, {x.shape[0], weight.shape[0], places.height, places.width},
                 [&](auto visit) { for_each_product(x, weight, window, groups, visit); });
}
inline std::vector<Tensor> conv2d_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                           const Window& window, int64_t groups = 1) {
  return product_backward(x, weight, dy,
                          [&](auto visit) { for_each_product(x, weight, window, groups, visit); });
}

/// (B,C,H,W), weight (C,O,K,K), bias (O) or empty -> (B,O,H',W') of `y_shape`. The convolution in
/// the opposite direction, from y to x, has the same products.
template <typename T>
TensorOf<T> conv_transpose2d(const TensorOf<T>& x, const TensorOf<T>& weight,
                             const TensorOf<T>& bias, const Window& window,
                             const std::vector<int64_t>& y_shape) {
  return product(x, weight, bias, y_shape, [&](auto visit) {
    for_each_product(TensorOf<T>(y_shape), weight, window, 1,
                     [&](size_t i, size_t o, size_t k) { visit(o, i, k); });
  });
}
inline std::vector<Tensor> conv_transpose2d_backward(const Tensor& x, const Tensor& weight,
                                                     const Tensor& dy, const Window& window) {
  return product_backward(x, weight, dy, [&](auto visit) {
    for_each_product(dy, weight, window, 1, [&](size_t i, size_t o, size_t k) { visit(o, i, k); });
  });
}

template <typename T, typename Visit>
void for_each_linear(const TensorOf<T>& x, const TensorOf<T>& weight, Visit visit) {
  const size_t outputs = size_t(weight.shape[0]), inputs = size_t(weight.shape[1]);
  for (size_t i = 0; i < x.values.size() / inputs * outputs; ++i) {
    for (size_t f = 0; f < inputs; ++f) {
      visit(i, i / outputs * inputs + f, i % outputs * inputs + f);
    }
  }
}

/// (B,T,F), or (B,F...) as (B,F), weight (O,F), bias (O) or empty -> (B,T,O) or (B,O).
template <typename T>
TensorOf<T> linear(const TensorOf<T>& x, const TensorOf<T>& weight, const TensorOf<T>& bias) {
  std::vector<int64_t> shape = {x.shape[0], weight.shape[0]};
  if (x.shape.size() == 3) shape.insert(shape.begin() + 1, x.shape[1]);
  return product(x, weight, bias, shape, [&](auto visit) { for_each_linear(x, weight, visit); });
}
inline std::vector<Tensor> linear_backward(const Tensor& x, const Tensor& weight,
                                           const Tensor& dy) {
  return product_backward(x, weight, dy, [&](auto visit) { for_each_linear(x, weight, visit); });
}

template <typename T>
TensorOf<T> relu(TensorOf<T> x) {
  for (T& v : x.values) v = v > 0 ? v : 0;
  return x;
}

/// The result of a pool, with `initial` in all places, and visit(result, number) for each number
/// under each window.
template <typename T, typename Visit>
TensorOf<T> pooled(const TensorOf<T>& x, const Window& window, double initial, Visit visit) {
  const Extent places = window.places(x.shape[2], x.shape[3]);
  TensorOf<T> y({x.shape[0], x.shape[1], places.height, places.width});
  std::ranges::fill(y.values, initial);
  const size_t out = count(y.shape, 2), in = count(x.shape, 2);
  for (size_t map = 0; map < y.values.size() / out; ++map) {
    for_each_pixel(x.shape[2], x.shape[3], window,
                   [&](size_t o, size_t i, size_t) { visit(y[map * out + o], x[map * in + i]); });
  }
  return y;
}

/// In a tie, the first maximum gets the gradient.
template <typename T>
TensorOf<T> max_pool(const TensorOf<T>& x, const Window& window) {
  return pooled(x, window, -INFINITY, [](T& y, const T& v) { y = std::max(y, v); });
}

/// Padding counts as zeros: each output is a sum divided by K*K, as in PyTorch.
template <typename T>
TensorOf<T> avg_pool(const TensorOf<T>& x, const Window& window) {
  const double share = 1.0 / double(window.kernel.height * window.kernel.width);
  return pooled(x, window, 0, [&](T& y, const T& v) { y += v * share; });
}

/// (B,C,H,W) -> (B,C)
template <typename T>
TensorOf<T> global_avg_pool(const TensorOf<T>& x) {
  TensorOf<T> y({x.shape[0], x.shape[1]});
  const size_t pixels = count(x.shape, 2);
  for (size_t i = 0; i < x.values.size(); ++i) y[i / pixels] += x[i] / double(pixels);
  return y;
}

/// Per channel, over the batch: the mean and the biased variance (divided by n).
template <typename T>
struct MomentsOf {
  TensorOf<T> mean, variance;
};

template <typename T>
MomentsOf<T> moments(const TensorOf<T>& x) {
  MomentsOf<T> m{TensorOf<T>({x.shape[1]}), TensorOf<T>({x.shape[1]})};
  const double n = double(x.values.size()) / double(x.shape[1]);
  for (size_t i = 0; i < x.values.size(); ++i) m.mean[channel_of(x, i)] += x[i] / n;
  for (size_t i = 0; i < x.values.size(); ++i) {
    const T distance = x[i] - m.mean[channel_of(x, i)];
    m.variance[channel_of(x, i)] += distance * distance / n;
  }
  return m;
}

constexpr double kEpsilon = 1e-5;

/// y = weight * (x - mean) / sqrt(variance + 1e-5) + bias, for each channel of (B,C,H,W) or (B,C).
template <typename T>
TensorOf<T> batch_norm(const TensorOf<T>& x, const TensorOf<T>& weight, const TensorOf<T>& bias,
                       const MomentsOf<T>& m) {
  TensorOf<T> y(x.shape);
  for (size_t i = 0; i < x.values.size(); ++i) {
    const size_t c = channel_of(x, i);
    y[i] = weight[c] * (x[i] - m.mean[c]) / sqrt(m.variance[c] + kEpsilon) + bias[c];
  }
  return y;
}

/// The sum over the batch of -log softmax(scores)[label].
template <typename T>
T softmax_cross_entropy(const TensorOf<T>& scores, std::span<const uint32_t> labels) {
  const size_t classes = size_t(scores.shape[1]);
  T loss = 0;
  for (size_t b = 0; b < labels.size(); ++b) {
    T sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += exp(scores[b * classes + c]);
    loss += log(sum) - scores[b * classes + labels[b]];
  }
  return loss;
}

}  // namespace dlflow::runtime::reference
