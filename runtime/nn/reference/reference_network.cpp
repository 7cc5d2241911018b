#include "runtime/nn/reference/reference_network.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dlflow::runtime::reference {
namespace {

Window window_of(const Layer& layer) { return {layer.kernel, layer.stride, layer.padding}; }

Tensor get(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? Tensor() : found->second;
}

void add_to(Tensor& sum, const Tensor& term) {
  if (sum.values.empty()) sum = Tensor(term.shape);
  for (size_t i = 0; i < sum.values.size(); ++i) sum[i] += term[i];
}

Tensor reshaped(Tensor x, std::vector<int64_t> shape) {
  x.shape = std::move(shape);
  return x;
}

/// A layer with its weights, and what it reads. Two functions for each row of layers.def compute
/// with it.
struct Call {
  const Layer& layer;
  Tensor weight, bias;  // empty if it has none
  const NamedTensors& weights;
  bool training;
  const Tensor& x;
  const Tensor& second;  // x, if it reads one value

  Window window() const { return window_of(layer); }
};

/// What flows back through a call.
struct BackwardCall : Call {
  const Tensor& y;
  const Tensor& dy;
};

/// Of a layer without weights. One that reads two values gives the same gradient to both.
Gradients without_weights(Tensor dx) { return {std::move(dx), Tensor(), Tensor()}; }

Tensor forward_conv2d(const Call& c) { return conv2d(c.x, c.weight, c.bias, c.window()); }
Gradients backward_conv2d(const BackwardCall& c) {
  return conv2d_backward(c.x, c.weight, c.dy, c.window());
}

Tensor forward_linear(const Call& c) { return linear(c.x, c.weight, c.bias); }
Gradients backward_linear(const BackwardCall& c) { return linear_backward(c.x, c.weight, c.dy); }

Tensor forward_batch_norm(const Call& c) {
  if (!c.training) {
    return batch_norm(c.x, c.weight, c.bias, get(c.weights, c.layer.name + ".running_mean"),
                      get(c.weights, c.layer.name + ".running_var"));
  }
  const Moments m = moments(c.x);
  return batch_norm(c.x, c.weight, c.bias, m.mean, m.variance);
}
Gradients backward_batch_norm(const BackwardCall& c) {
  return batch_norm_backward(c.x, c.weight, c.dy);
}

Tensor forward_relu(const Call& c) { return relu(c.x); }
Gradients backward_relu(const BackwardCall& c) { return without_weights(relu_backward(c.y, c.dy)); }

/// `function` of each number.
template <typename Function>
Tensor each(const Tensor& x, Function function) {
  Tensor y = x;
  for (double& v : y.values) v = function(v);
  return y;
}

/// `dy` times `slope` of each number of `x`.
template <typename Slope>
Gradients each_backward(const BackwardCall& c, Slope slope) {
  Tensor dx = c.dy;
  for (size_t i = 0; i < dx.values.size(); ++i) dx[i] *= slope(c.x[i]);
  return without_weights(dx);
}

/// Of a normal variable: the probability to be below x, and the density there.
double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

Tensor forward_gelu(const Call& c) {
  return each(c.x, [](double x) { return x * normal_distribution(x); });
}
Gradients backward_gelu(const BackwardCall& c) {
  return each_backward(c, [](double x) { return normal_distribution(x) + x * normal_density(x); });
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

Tensor forward_sigmoid(const Call& c) { return each(c.x, logistic); }
Gradients backward_sigmoid(const BackwardCall& c) {
  return each_backward(c, [](double x) { return logistic(x) * (1 - logistic(x)); });
}

Tensor forward_silu(const Call& c) {
  return each(c.x, [](double x) { return x * logistic(x); });
}
Gradients backward_silu(const BackwardCall& c) {
  return each_backward(c, [](double x) { return logistic(x) * (1 + x * (1 - logistic(x))); });
}

Tensor forward_tanh(const Call& c) {
  return each(c.x, [](double x) { return std::tanh(x); });
}
Gradients backward_tanh(const BackwardCall& c) {
  return each_backward(c, [](double x) { return 1 - std::tanh(x) * std::tanh(x); });
}

Tensor forward_max_pool(const Call& c) { return max_pool(c.x, c.window()); }
Gradients backward_max_pool(const BackwardCall& c) {
  return without_weights(max_pool_backward(c.x, c.dy, c.window()));
}

Tensor forward_avg_pool(const Call& c) { return avg_pool(c.x, c.window()); }
Gradients backward_avg_pool(const BackwardCall& c) {
  return without_weights(avg_pool_backward(c.x, c.dy, c.window()));
}

Tensor forward_global_avg_pool(const Call& c) { return global_avg_pool(c.x); }
Gradients backward_global_avg_pool(const BackwardCall& c) {
  return without_weights(global_avg_pool_backward(c.x, c.dy));
}

Tensor forward_flatten(const Call& c) { return reshaped(c.x, {c.x.shape[0], c.layer.shape[0]}); }
Gradients backward_flatten(const BackwardCall& c) {
  return without_weights(reshaped(c.dy, c.x.shape));
}

Tensor forward_add(const Call& c) {
  Tensor y = c.x;
  add_to(y, c.second);
  return y;
}
Gradients backward_add(const BackwardCall& c) { return without_weights(c.dy); }

Call call_of(const Layer& layer, const NamedTensors& weights, bool training, const Tensor& x,
             const Tensor& second) {
  return {layer,
          get(weights, layer.name + ".weight"),
          get(weights, layer.name + ".bias"),
          weights,
          training,
          x,
          second};
}

Tensor forward(const Call& call) {
  switch (call.layer.kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return forward_##word(call);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return Tensor();
}

Gradients backward(const BackwardCall& call) {
  switch (call.layer.kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return backward_##word(call);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return without_weights(Tensor());
}

/// The result of each layer.
std::vector<Tensor> all_values(const Model& model, const NamedTensors& weights,
                               const Tensor& images, bool training) {
  std::vector<Tensor> values;
  const auto value = [&](int i) -> const Tensor& {
    return i == kImages ? images : values[size_t(i)];
  };
  for (const Layer& layer : model.layers) {
    values.push_back(forward(call_of(layer, weights, training, value(layer.inputs.front()),
                                     value(layer.inputs.back()))));
  }
  return values;
}

}  // namespace

Step train_step(const Model& model, const NamedTensors& weights, const Tensor& images,
                std::span<const uint32_t> labels) {
  const std::vector<Tensor> values = all_values(model, weights, images, true);
  Step step;
  step.scores = values.back();
  step.loss_sum = softmax_cross_entropy(step.scores, labels);
  std::vector<Tensor> d(values.size());
  d.back() = softmax_cross_entropy_backward(step.scores, labels);
  for (size_t i = values.size(); i-- > 0;) {
    const Layer& layer = model.layers[i];
    const auto value = [&](int j) -> const Tensor& {
      return j == kImages ? images : values[size_t(j)];
    };
    const Tensor& x = value(layer.inputs.front());
    const Call call = call_of(layer, weights, true, x, value(layer.inputs.back()));
    Gradients gradients = backward({call, values[i], d[i]});
    for (const int j : layer.inputs) {
      if (j != kImages) add_to(d[size_t(j)], gradients.x);
    }
    if (!call.weight.values.empty()) {
      step.gradients[layer.name + ".weight"] = std::move(gradients.weight);
    }
    if (!call.bias.values.empty()) step.gradients[layer.name + ".bias"] = std::move(gradients.bias);
    if (layer.kind == LayerKind::BatchNorm) {
      Moments m = moments(x);
      const double n = double(x.values.size()) / double(x.shape[1]);
      for (double& v : m.variance.values) v *= n / std::max(n - 1, 1.0);
      step.moments[layer.name + ".running_mean"] = m.mean;
      step.moments[layer.name + ".running_var"] = m.variance;
    }
  }
  return step;
}

Tensor infer(const Model& model, const NamedTensors& weights, const Tensor& images) {
  return all_values(model, weights, images, false).back();
}

}  // namespace dlflow::runtime::reference
