#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/model.h"

/// Every layer in plain C++ and double precision, as the reference for the fast ones. Slow, and
/// written to be read beside the formulas. TensorShape letters as in runtime/nn/model.h; O output
/// channels or features, K kernel.
namespace dlflow::runtime::reference {

/// Numbers in row-major order.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;

  explicit Tensor(std::vector<int64_t> tensor_shape = {});
  double& operator[](size_t i) { return values[i]; }
  double operator[](size_t i) const { return values[i]; }
};

struct Window {
  Extent kernel = 1;
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;
};

/// (B,C,H,W), weight (O,C/groups,K,K), bias (O) or empty -> (B,O,H',W').
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Window window,
              int64_t groups = 1);

/// Gradients of a layer's input, weight and bias.
struct Gradients {
  Tensor x, weight, bias;
  std::vector<Tensor> inputs = {};  ///< of each input, unless `x` holds for all
};
Gradients conv2d_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, Window window,
                          int64_t groups = 1);

/// (B,C,H,W), weight (C,O,K,K), bias (O) or empty -> (B,O,H',W') of `y_shape`.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Window window,
                        std::vector<int64_t> y_shape);
Gradients conv_transpose2d_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                    Window window);

/// (B,T,F), or (B,F...) as (B,F), weight (O,F), bias (O) or empty -> (B,T,O) or
/// (B,O).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
Gradients linear_backward(const Tensor& x, const Tensor& weight, const Tensor& dy);

Tensor relu(const Tensor& x);
Tensor relu_backward(const Tensor& y, const Tensor& dy);

/// In a tie, the first maximum gets the gradient.
Tensor max_pool(const Tensor& x, Window window);
Tensor max_pool_backward(const Tensor& x, const Tensor& dy, Window window);

/// Padding counts as zeros: each output is a sum divided by K*K, as in PyTorch.
Tensor avg_pool(const Tensor& x, Window window);
Tensor avg_pool_backward(const Tensor& x, const Tensor& dy, Window window);

/// (B,C,H,W) -> (B,C)
Tensor global_avg_pool(const Tensor& x);
Tensor global_avg_pool_backward(const Tensor& x, const Tensor& dy);

/// y = weight * (x - mean) / sqrt(variance + 1e-5) + bias, for each channel of (B,C,H,W) or (B,C).
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& variance);

/// Per channel, over the batch: the mean and the biased variance (divided by n).
struct Moments {
  Tensor mean, variance;
};
Moments moments(const Tensor& x);

/// Uses the moments of x, and includes their derivatives with respect to x.
Gradients batch_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy);

/// The sum over the batch of -log softmax(scores)[label].
double softmax_cross_entropy(const Tensor& scores, std::span<const uint32_t> labels);

/// Its gradient: softmax(scores) - one_hot(label).
Tensor softmax_cross_entropy_backward(const Tensor& scores, std::span<const uint32_t> labels);

}  // namespace dlflow::runtime::reference
