#include "runtime/nn/reference/layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlflow::runtime::reference {
namespace {

constexpr double kEpsilon = 1e-5;

int64_t count(const std::vector<int64_t>& shape, size_t from = 0) {
  return std::accumulate(shape.begin() + int64_t(from), shape.end(), int64_t(1),
                         std::multiplies<>());
}

int64_t num_rows(int64_t height, Window w) {
  const int64_t window = w.dilation.height * (w.kernel.height - 1) + 1;
  return (height + 2 * w.padding.height - window) / w.stride.height + 1;
}

int64_t num_columns(int64_t width, Window w) {
  const int64_t window = w.dilation.width * (w.kernel.width - 1) + 1;
  return (width + 2 * w.padding.width - window) / w.stride.width + 1;
}

/// Calls visit(output index, input index, kernel index) for every pixel under every window of one
/// map; the caller adds the offsets of channels.
template <typename Visit>
void for_each_pixel(int64_t height, int64_t width, Window w, Visit visit) {
  const int64_t out_height = num_rows(height, w);
  const int64_t out_width = num_columns(width, w);
  for (int64_t oy = 0; oy < out_height; ++oy) {
    for (int64_t ox = 0; ox < out_width; ++ox) {
      for (int64_t ky = 0; ky < w.kernel.height; ++ky) {
        for (int64_t kx = 0; kx < w.kernel.width; ++kx) {
          const int64_t iy = oy * w.stride.height + ky * w.dilation.height - w.padding.height;
          const int64_t ix = ox * w.stride.width + kx * w.dilation.width - w.padding.width;
          if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
          visit(size_t(oy * out_width + ox), size_t(iy * width + ix),
                size_t(ky * w.kernel.width + kx));
        }
      }
    }
  }
}

/// Calls for_each_pixel for each of the B*C maps, with indices into the whole tensors.
template <typename Visit>
void for_each_pooled(const Tensor& x, Window w, Visit visit) {
  const size_t out = size_t(num_rows(x.shape[2], w) * num_columns(x.shape[3], w));
  const size_t in = size_t(x.shape[2] * x.shape[3]);
  for (size_t map = 0; map < size_t(x.shape[0] * x.shape[1]); ++map) {
    for_each_pixel(x.shape[2], x.shape[3], w,
                   [&](size_t o, size_t i, size_t) { visit(map * out + o, map * in + i); });
  }
}

/// Calls visit(output, input, weight index, output channel) for every multiplication of conv2d.
template <typename Visit>
void for_each_product(const Tensor& x, const Tensor& weight, Window w, int64_t groups,
                      Visit visit) {
  const size_t all_channels = size_t(x.shape[1]), channels = all_channels / size_t(groups);
  const size_t outputs = size_t(weight.shape[0]);
  const size_t in = size_t(x.shape[2] * x.shape[3]);
  const size_t out = size_t(num_rows(x.shape[2], w) * num_columns(x.shape[3], w));
  const size_t square = size_t(w.kernel.height * w.kernel.width);
  for (size_t b = 0; b < size_t(x.shape[0]); ++b) {
    for (size_t o = 0; o < outputs; ++o) {
      const size_t first = o / (outputs / size_t(groups)) * channels;  // the group's first
      for (size_t c = 0; c < channels; ++c) {
        for_each_pixel(x.shape[2], x.shape[3], w, [&](size_t to, size_t from, size_t k) {
          visit((b * outputs + o) * out + to, (b * all_channels + first + c) * in + from,
                (o * channels + c) * square + k, o);
        });
      }
    }
  }
}

std::vector<int64_t> pooled_shape(const Tensor& x, Window w) {
  return {x.shape[0], x.shape[1], num_rows(x.shape[2], w), num_columns(x.shape[3], w)};
}

/// Calls visit(element, channel) for every element.
template <typename Visit>
void for_each_channel(const Tensor& x, Visit visit) {
  const size_t pixels = size_t(count(x.shape, 2));
  for (size_t i = 0; i < x.values.size(); ++i) visit(i, i / pixels % size_t(x.shape[1]));
}

}  // namespace

Tensor::Tensor(std::vector<int64_t> tensor_shape)
    : shape(std::move(tensor_shape)), values(shape.empty() ? 0 : size_t(count(shape))) {}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Window window,
              int64_t groups) {
  Tensor y(
      {x.shape[0], weight.shape[0], num_rows(x.shape[2], window), num_columns(x.shape[3], window)});
  for_each_product(x, weight, window, groups,
                   [&](size_t o, size_t i, size_t k, size_t) { y[o] += x[i] * weight[k]; });
  if (!bias.values.empty()) for_each_channel(y, [&](size_t i, size_t c) { y[i] += bias[c]; });
  return y;
}

Gradients conv2d_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, Window window,
                          int64_t groups) {
  Gradients d{Tensor(x.shape), Tensor(weight.shape), Tensor({weight.shape[0]})};
  for_each_product(x, weight, window, groups, [&](size_t o, size_t i, size_t k, size_t) {
    d.x[i] += dy[o] * weight[k];
    d.weight[k] += dy[o] * x[i];
  });
  for_each_channel(dy, [&](size_t i, size_t c) { d.bias[c] += dy[i]; });
  return d;
}

/// The convolution in the opposite direction, from y to x, has the same products.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Window window,
                        std::vector<int64_t> y_shape) {
  Tensor y(std::move(y_shape));
  for_each_product(y, weight, window, 1,
                   [&](size_t i, size_t o, size_t k, size_t) { y[o] += x[i] * weight[k]; });
  if (!bias.values.empty()) for_each_channel(y, [&](size_t i, size_t c) { y[i] += bias[c]; });
  return y;
}

Gradients conv_transpose2d_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                    Window window) {
  Gradients d{Tensor(x.shape), Tensor(weight.shape), Tensor({weight.shape[1]})};
  for_each_product(dy, weight, window, 1, [&](size_t i, size_t o, size_t k, size_t) {
    d.x[i] += dy[o] * weight[k];
    d.weight[k] += dy[o] * x[i];
  });
  for_each_channel(dy, [&](size_t i, size_t c) { d.bias[c] += dy[i]; });
  return d;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const size_t outputs = size_t(weight.shape[0]);
  const size_t inputs = size_t(weight.shape[1]);
  Tensor y({x.shape[0], weight.shape[0]});
  if (x.shape.size() == 3) y = Tensor({x.shape[0], x.shape[1], weight.shape[0]});
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t b = i / outputs;
    const size_t o = i % outputs;
    y[i] = bias.values.empty() ? 0 : bias[o];
    for (size_t f = 0; f < inputs; ++f) y[i] += x[b * inputs + f] * weight[o * inputs + f];
  }
  return y;
}

Gradients linear_backward(const Tensor& x, const Tensor& weight, const Tensor& dy) {
  const size_t outputs = size_t(weight.shape[0]);
  const size_t inputs = size_t(weight.shape[1]);
  Gradients d{Tensor(x.shape), Tensor(weight.shape), Tensor({weight.shape[0]})};
  for (size_t i = 0; i < dy.values.size(); ++i) {
    const size_t b = i / outputs;
    const size_t o = i % outputs;
    d.bias[o] += dy[i];
    for (size_t f = 0; f < inputs; ++f) {
      d.x[b * inputs + f] += dy[i] * weight[o * inputs + f];
      d.weight[o * inputs + f] += dy[i] * x[b * inputs + f];
    }
  }
  return d;
}

Tensor relu(const Tensor& x) {
  Tensor y = x;
  for (double& v : y.values) v = std::max(v, 0.0);
  return y;
}

Tensor relu_backward(const Tensor& y, const Tensor& dy) {
  Tensor dx = dy;
  for (size_t i = 0; i < dx.values.size(); ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
  return dx;
}

Tensor max_pool(const Tensor& x, Window window) {
  Tensor y(pooled_shape(x, window));
  std::ranges::fill(y.values, -INFINITY);
  for_each_pooled(x, window, [&](size_t o, size_t i) { y[o] = std::max(y[o], x[i]); });
  return y;
}

Tensor max_pool_backward(const Tensor& x, const Tensor& dy, Window window) {
  Tensor dx(x.shape);
  const Tensor y = max_pool(x, window);
  std::vector<bool> given(dy.values.size());
  for_each_pooled(x, window, [&](size_t o, size_t i) {
    if (given[o] || x[i] != y[o]) return;
    dx[i] += dy[o];
    given[o] = true;
  });
  return dx;
}

Tensor avg_pool(const Tensor& x, Window window) {
  Tensor y(pooled_shape(x, window));
  const double share = 1.0 / double(window.kernel.height * window.kernel.width);
  for_each_pooled(x, window, [&](size_t o, size_t i) { y[o] += x[i] * share; });
  return y;
}

Tensor avg_pool_backward(const Tensor& x, const Tensor& dy, Window window) {
  Tensor dx(x.shape);
  const double share = 1.0 / double(window.kernel.height * window.kernel.width);
  for_each_pooled(x, window, [&](size_t o, size_t i) { dx[i] += dy[o] * share; });
  return dx;
}

Tensor global_avg_pool(const Tensor& x) {
  Tensor y({x.shape[0], x.shape[1]});
  const size_t pixels = size_t(count(x.shape, 2));
  for (size_t i = 0; i < x.values.size(); ++i) y[i / pixels] += x[i] / double(pixels);
  return y;
}

Tensor global_avg_pool_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx(x.shape);
  const size_t pixels = size_t(count(x.shape, 2));
  for (size_t i = 0; i < x.values.size(); ++i) dx[i] = dy[i / pixels] / double(pixels);
  return dx;
}

Moments moments(const Tensor& x) {
  Moments m{Tensor({x.shape[1]}), Tensor({x.shape[1]})};
  const double n = double(x.values.size()) / double(x.shape[1]);
  for_each_channel(x, [&](size_t i, size_t c) { m.mean[c] += x[i] / n; });
  for_each_channel(x,
                   [&](size_t i, size_t c) { m.variance[c] += std::pow(x[i] - m.mean[c], 2) / n; });
  return m;
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& variance) {
  Tensor y(x.shape);
  for_each_channel(x, [&](size_t i, size_t c) {
    y[i] = weight[c] * (x[i] - mean[c]) / std::sqrt(variance[c] + kEpsilon) + bias[c];
  });
  return y;
}

Gradients batch_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy) {
  const Moments m = moments(x);
  const double n = double(x.values.size()) / double(x.shape[1]);
  Gradients d{Tensor(x.shape), Tensor(weight.shape), Tensor(weight.shape)};
  const auto scale = [&](size_t c) { return 1 / std::sqrt(m.variance[c] + kEpsilon); };
  for_each_channel(x, [&](size_t i, size_t c) {
    d.weight[c] += dy[i] * (x[i] - m.mean[c]) * scale(c);
    d.bias[c] += dy[i];
  });
  for_each_channel(x, [&](size_t i, size_t c) {
    const double normalised = (x[i] - m.mean[c]) * scale(c);
    d.x[i] = weight[c] * scale(c) * (dy[i] - d.bias[c] / n - normalised * d.weight[c] / n);
  });
  return d;
}

double softmax_cross_entropy(const Tensor& scores, std::span<const uint32_t> labels) {
  const size_t classes = size_t(scores.shape[1]);
  double loss = 0;
  for (size_t b = 0; b < labels.size(); ++b) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(scores[b * classes + c]);
    loss += std::log(sum) - scores[b * classes + labels[b]];
  }
  return loss;
}

Tensor softmax_cross_entropy_backward(const Tensor& scores, std::span<const uint32_t> labels) {
  const size_t classes = size_t(scores.shape[1]);
  Tensor d(scores.shape);
  for (size_t b = 0; b < labels.size(); ++b) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(scores[b * classes + c]);
    for (size_t c = 0; c < classes; ++c) {
      d[b * classes + c] = std::exp(scores[b * classes + c]) / sum - (c == labels[b] ? 1 : 0);
    }
  }
  return d;
}

}  // namespace dlflow::runtime::reference
