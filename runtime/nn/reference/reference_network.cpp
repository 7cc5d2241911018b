#include "runtime/nn/reference/reference_network.h"

#include <algorithm>

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

Tensor forward(const Layer& layer, const NamedTensors& weights, const Tensor& x,
               const Tensor& second, bool training) {
  const Tensor weight = get(weights, layer.name + ".weight");
  const Tensor bias = get(weights, layer.name + ".bias");
  switch (layer.kind) {
    case LayerKind::Conv2d:
      return conv2d(x, weight, bias, window_of(layer));
    case LayerKind::Linear:
      return linear(x, weight, bias);
    case LayerKind::BatchNorm: {
      if (training) {
        const Moments m = moments(x);
        return batch_norm(x, weight, bias, m.mean, m.variance);
      }
      return batch_norm(x, weight, bias, get(weights, layer.name + ".running_mean"),
                        get(weights, layer.name + ".running_var"));
    }
    case LayerKind::Relu:
      return relu(x);
    case LayerKind::MaxPool:
      return max_pool(x, window_of(layer));
    case LayerKind::AvgPool:
      return avg_pool(x, window_of(layer));
    case LayerKind::GlobalAvgPool:
      return global_avg_pool(x);
    case LayerKind::Flatten:
      return reshaped(x, {x.shape[0], layer.shape[0]});
    case LayerKind::Add: {
      Tensor y = x;
      add_to(y, second);
      return y;
    }
  }
  return Tensor();
}

/// The gradient of the layer's input (of both, for Add); weights' gradients go to `gradients`.
Tensor backward(const Layer& layer, const NamedTensors& weights, const Tensor& x, const Tensor& y,
                const Tensor& dy, NamedTensors& gradients) {
  const Tensor weight = get(weights, layer.name + ".weight");
  const auto keep = [&](Gradients d) {
    gradients[layer.name + ".weight"] = std::move(d.weight);
    if (layer.bias) gradients[layer.name + ".bias"] = std::move(d.bias);
    return std::move(d.x);
  };
  switch (layer.kind) {
    case LayerKind::Conv2d:
      return keep(conv2d_backward(x, weight, dy, window_of(layer)));
    case LayerKind::Linear:
      return keep(linear_backward(x, weight, dy));
    case LayerKind::BatchNorm:
      return keep(batch_norm_backward(x, weight, dy));
    case LayerKind::Relu:
      return relu_backward(y, dy);
    case LayerKind::MaxPool:
      return max_pool_backward(x, dy, window_of(layer));
    case LayerKind::AvgPool:
      return avg_pool_backward(x, dy, window_of(layer));
    case LayerKind::GlobalAvgPool:
      return global_avg_pool_backward(x, dy);
    case LayerKind::Flatten:
      return reshaped(dy, x.shape);
    case LayerKind::Add:
      return dy;
  }
  return Tensor();
}

/// The result of each layer.
std::vector<Tensor> all_values(const Model& model, const NamedTensors& weights,
                               const Tensor& images, bool training) {
  std::vector<Tensor> values;
  const auto value = [&](int i) -> const Tensor& {
    return i == kImages ? images : values[size_t(i)];
  };
  for (const Layer& layer : model.layers) {
    values.push_back(
        forward(layer, weights, value(layer.inputs.front()), value(layer.inputs.back()), training));
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
    const int input = layer.inputs.front();
    const Tensor& x = input == kImages ? images : values[size_t(input)];
    const Tensor dx = backward(layer, weights, x, values[i], d[i], step.gradients);
    for (const int j : layer.inputs) {
      if (j != kImages) add_to(d[size_t(j)], dx);
    }
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
