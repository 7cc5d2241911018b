#include "tests/support/reference/reference_network.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "runtime/nn/draws.h"
#include "tests/support/reference/more_layers.h"

namespace dlflow::runtime::reference {
namespace {

Tensor get(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? Tensor() : found->second;
}

void add_to(Tensor& sum, const Tensor& term) {
  if (sum.values.empty()) sum = Tensor(term.shape);
  for (size_t i = 0; i < sum.values.size(); ++i) sum[i] += term[i];
}

/// The arguments of a pass that all layers share.
struct Pass {
  const Model& model;
  const NamedTensors& weights;
  Lengths lengths;  // of padded texts; else empty
  bool training;
};

/// A layer with its inputs and weights. Each row of layers.def has a function that takes a CallOf.
template <typename T>
struct CallOf {
  const Layer& layer;
  const Pass& pass;
  std::vector<TensorOf<T>> arguments;  // the inputs, the weight, and the bias, or empty tensors

  const TensorOf<T>& x() const { return arguments[0]; }
  std::span<const TensorOf<T>> inputs() const {
    return std::span(arguments).first(arguments.size() - 2);
  }
  const TensorOf<T>& weight() const { return arguments[arguments.size() - 2]; }
  const TensorOf<T>& bias() const { return arguments.back(); }
  Window window() const { return {layer.kernel, layer.stride, layer.padding, layer.dilation}; }
};

auto forward_conv2d(const auto& c) {
  return conv2d(c.x(), c.weight(), c.bias(), c.window(), c.layer.groups);
}

auto forward_conv_transpose2d(const auto& c) {
  std::vector<int64_t> shape = c.layer.shape;
  shape.insert(shape.begin(), c.x().shape[0]);
  return conv_transpose2d(c.x(), c.weight(), c.bias(), c.window(), shape);
}

auto forward_linear(const auto& c) { return linear(c.x(), c.weight(), c.bias()); }

template <typename T>
TensorOf<T> forward_batch_norm(const CallOf<T>& c) {
  if (c.pass.training) return batch_norm(c.x(), c.weight(), c.bias(), moments(c.x()));
  const auto running = [&](const char* name) {
    const Tensor found = get(c.pass.weights, c.layer.name + name);
    TensorOf<T> tensor(found.shape);
    std::ranges::copy(found.values, tensor.values.begin());
    return tensor;
  };
  return batch_norm(c.x(), c.weight(), c.bias(),
                    {running(".running_mean"), running(".running_var")});
}

/// Applies `function` to each number.
auto each(auto x, const auto& function) {
  for (auto& v : x.values) v = function(v);
  return x;
}

auto logistic(const auto& x) { return 1 / (1 + exp(-x)); }

auto forward_relu(const auto& c) { return relu(c.x()); }

auto forward_gelu(const auto& c) {
  return each(c.x(), [](const auto& x) { return x * 0.5 * erfc(-x / std::numbers::sqrt2); });
}

auto forward_sigmoid(const auto& c) {
  return each(c.x(), [](const auto& x) { return logistic(x); });
}

auto forward_silu(const auto& c) {
  return each(c.x(), [](const auto& x) { return x * logistic(x); });
}

auto forward_tanh(const auto& c) {
  return each(c.x(), [](const auto& x) { return tanh(x); });
}

auto forward_relu6(const auto& c) {
  return each(c.x(), [](const auto& x) { return x > 0 && x < 6 ? x : x > 0 ? 6 : 0; });
}

auto forward_leaky_relu(const auto& c) {
  return each(c.x(), [&](const auto& x) { return x > 0 ? x : x * c.layer.slope; });
}

auto forward_group_norm(const auto& c) {
  return norm(groups_of(c.x(), c.layer.groups), c.x(), c.weight(), c.bias());
}

auto forward_layer_norm(const auto& c) { return norm(rows_of(c.x()), c.x(), c.weight(), c.bias()); }

template <typename T>
TensorOf<T> forward_rms_norm(const CallOf<T>& c) {
  return norm(rows_of(c.x()), c.x(), c.weight(), TensorOf<T>(), false);
}

auto forward_softmax(const auto& c) { return softmax(c.x()); }

auto forward_dropout(const auto& c) {
  auto y = c.x();
  if (!c.pass.training || c.layer.rate == 0) return y;
  const bool whole = c.layer.kind == LayerKind::StochasticDepth;
  const size_t size = count(y.shape, 1);
  const size_t channels = y.shape.size() == 4 ? size_t(y.shape[1]) : 1, pixels = size / channels;
  std::vector<uint8_t> keeps(size);
  for (size_t b = 0; b < size_t(y.shape[0]); ++b) {
    const LayerDraws draws({}, c.layer.name);
    draws.draw(uint32_t(b), c.layer.rate, whole ? std::span(keeps).first(1) : std::span(keeps));
    for (size_t i = 0; i < size; ++i) {
      const size_t place = channels == 1 ? i : i % pixels * channels + i / pixels;
      y[b * size + i] = y[b * size + i] * (keeps[whole ? 0 : place] / (1 - c.layer.rate));
    }
  }
  return y;
}

auto forward_stochastic_depth(const auto& c) { return forward_dropout(c); }
auto forward_max_pool(const auto& c) { return max_pool(c.x(), c.window()); }
auto forward_avg_pool(const auto& c) { return avg_pool(c.x(), c.window()); }
auto forward_global_avg_pool(const auto& c) { return global_avg_pool(c.x()); }
auto forward_adaptive_avg_pool(const auto& c) { return adaptive_avg_pool(c.x(), c.layer.size); }
auto forward_upsample(const auto& c) { return upsample(c.x(), c.layer.scale); }

/// Sequences are concatenated along the last dimension, others along the first after B.
auto forward_concat(const auto& c) { return concat(c.inputs(), c.x().shape.size() == 3 ? 2 : 1); }
auto forward_embedding(const auto& c) { return embedding(c.x(), c.weight()); }

auto forward_positions(const auto& c) {
  auto y = c.x();
  for (size_t i = 0; i < y.values.size(); ++i) y[i] += c.weight()[i % c.weight().values.size()];
  return y;
}

auto forward_attention(const auto& c) {
  const Layer& l = c.layer;
  return attention(c.x(), {l.heads, l.kv_heads, l.causal, l.rotary}, c.pass.lengths);
}

auto forward_mean_pool(const auto& c) { return mean_pool(c.x(), c.pass.lengths); }

auto forward_flatten(const auto& c) {
  auto y = c.x();
  y.shape = {y.shape[0], c.layer.shape[0]};
  return y;
}

auto forward_add(const auto& c) {
  auto y = c.x();
  for (size_t i = 0; i < y.values.size(); ++i) y[i] += c.arguments[1][i];
  return y;
}

template <typename T>
TensorOf<T> forward(const CallOf<T>& call) {
  switch (call.layer.kind) {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) \
  case LayerKind::Kind:                                         \
    return forward_##word(call);
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
  }
  return TensorOf<T>();
}

/// The gradients of the call's arguments. Layers with many products have formulas of their own,
/// since a record has a step for each.
std::vector<Tensor> backward(const CallOf<double>& c, const Tensor& dy) {
  const LayerKind kind = c.layer.kind;
  if (kind == LayerKind::Conv2d) {
    return conv2d_backward(c.x(), c.weight(), dy, c.window(), c.layer.groups);
  }
  if (kind == LayerKind::ConvTranspose2d) {
    return conv_transpose2d_backward(c.x(), c.weight(), dy, c.window());
  }
  if (kind == LayerKind::Linear) return linear_backward(c.x(), c.weight(), dy);
  return gradients_of(c.arguments, dy, [&](const std::vector<TensorOf<Number>>& arguments) {
    return forward(CallOf<Number>{c.layer, c.pass, arguments});
  });
}

/// `values` are the results of the layers so far.
CallOf<double> call_of(const Pass& pass, const Layer& layer, const Tensor& images,
                       const std::vector<Tensor>& values) {
  CallOf<double> call{layer, pass, {}};
  for (const int i : layer.inputs) {
    call.arguments.push_back(i == kImages ? images : values[size_t(i)]);
  }
  call.arguments.push_back(get(pass.weights, pass.model.weight_of(layer)));
  call.arguments.push_back(get(pass.weights, layer.name + ".bias"));
  return call;
}

/// For texts that have a class: the number of tokens of each, if `numbers` holds them.
Lengths lengths_in(const Model& model, const Tensor& images, std::span<const float> numbers) {
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy && model.takes_tokens();
  return has_classes && int64_t(numbers.size()) == images.shape[0] ? numbers : Lengths();
}

/// The result of each layer.
std::vector<Tensor> all_values(const Pass& pass, const Tensor& images) {
  std::vector<Tensor> values;
  for (const Layer& layer : pass.model.layers) {
    values.push_back(forward(call_of(pass, layer, images, values)));
  }
  return values;
}

/// The target of a position is the token after it.
template <typename T>
T next_token_loss(const TensorOf<T>& scores, const Tensor& tokens, std::optional<int64_t> ignored) {
  const auto length = size_t(scores.shape[1]), classes = size_t(scores.shape[2]);
  T loss = 0;
  for (size_t b = 0; b < size_t(scores.shape[0]); ++b) {
    T sum = 0;
    double counted = 0;
    for (size_t at = b * length; at + 1 < (b + 1) * length; ++at) {
      if (int64_t(tokens[at + 1]) == ignored) continue;
      TensorOf<T> row({1, scores.shape[2]});
      std::copy_n(scores.values.begin() + long(at * classes), classes, row.values.begin());
      const std::vector<uint32_t> target = {uint32_t(tokens[at + 1])};
      sum += softmax_cross_entropy(row, target);
      ++counted;
    }
    if (counted > 0) loss += sum / counted;
  }
  return loss;
}

/// The sum over samples of the mean over their targets.
template <typename T>
T target_loss(LossKind kind, const TensorOf<T>& scores, std::span<const double> targets) {
  T loss = 0;
  for (size_t i = 0; i < scores.values.size(); ++i) {
    const T x = scores[i] - targets[i], size = x > 0 ? x : -x, p = logistic(scores[i]);
    if (kind == LossKind::AbsoluteError) {
      loss += size;
    } else if (kind == LossKind::Huber && size > 1) {
      loss += size - 0.5;
    } else if (kind == LossKind::Huber) {
      loss += x * x / 2;
    } else if (kind == LossKind::BinaryCrossEntropy) {
      loss -= log(targets[i] > 0 ? p : 1 - p);
    } else {
      loss += x * x;
    }
  }
  return loss * (double(scores.shape[0]) / double(scores.values.size()));
}

/// The sum over samples of cross-entropy (the mean over the pixels that count) and Dice.
/// \param mask  (B, H * W)
template <typename T>
T pixel_loss(LossKind kind, const TensorOf<T>& scores, std::span<const float> mask) {
  const auto classes = size_t(scores.shape[1]), pixels = count(scores.shape, 2);
  T loss = 0;
  for (size_t b = 0; b < size_t(scores.shape[0]); ++b) {
    T entropy = 0;
    double counted = 0;
    std::vector<T> both(classes), all(classes);  // of each class
    for (size_t i = 0; i < pixels; ++i) {
      const float truth = mask[b * pixels + i];
      if (truth == float(kIgnoredClass)) continue;
      const auto power = [&](size_t c) { return exp(scores[(b * classes + c) * pixels + i]); };
      T sum = 0;
      for (size_t c = 0; c < classes; ++c) sum += power(c);
      for (size_t c = 0; c < classes; ++c) {
        const T p = power(c) / sum;
        all[c] += p + (truth == float(c) ? 1 : 0);
        if (truth != float(c)) continue;
        both[c] += p;
        entropy -= log(p);
      }
      ++counted;
    }
    if (kind != LossKind::Dice && counted > 0) loss += entropy / counted;
    for (size_t c = 0; c < classes && kind != LossKind::PixelCrossEntropy; ++c) {
      loss += (1 - (2 * both[c] + 1) / (all[c] + 1)) / double(classes);
    }
  }
  return loss;
}

template <typename T>
T loss_of(const Model& model, const TensorOf<T>& scores, const Tensor& images,
          std::span<const uint32_t> labels, std::span<const float> targets) {
  if (model.loss == LossKind::NextToken)
    return next_token_loss(scores, images, model.ignored_token);
  if (model.loss == LossKind::Reconstruction) {
    return target_loss(LossKind::MeanSquaredError, scores, images.values);
  }
  if (has_masks(model.loss)) return pixel_loss(model.loss, scores, targets);
  if (!has_targets(model.loss)) return softmax_cross_entropy(scores, labels);
  const std::vector<double> wide(targets.begin(), targets.end());
  return target_loss(model.loss, scores, wide);
}

}  // namespace

Step train_step(const Model& model, const NamedTensors& weights, const Tensor& images,
                std::span<const uint32_t> labels, std::span<const float> targets) {
  const Pass pass = {model, weights, lengths_in(model, images, targets), true};
  const std::vector<Tensor> values = all_values(pass, images);
  const auto loss = [&](const auto& scores) {
    return loss_of(model, scores, images, labels, targets);
  };
  Step step;
  step.scores = values.back();
  step.loss_sum = loss(step.scores);
  std::vector<Tensor> d(values.size());
  d.back() = gradient_of_loss(step.scores, loss);
  for (size_t i = values.size(); i-- > 0;) {
    const Layer& layer = model.layers[i];
    const CallOf<double> call = call_of(pass, layer, images, values);
    std::vector<Tensor> gradients = backward(call, d[i]);
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const int j = layer.inputs[k];
      if (j != kImages) add_to(d[size_t(j)], gradients[k]);
    }
    const Tensor &weight = gradients[gradients.size() - 2], &bias = gradients.back();
    if (!call.weight().values.empty()) add_to(step.gradients[model.weight_of(layer)], weight);
    if (!call.bias().values.empty()) step.gradients[layer.name + ".bias"] = bias;
    if (layer.kind == LayerKind::BatchNorm) {
      MomentsOf<double> m = moments(call.x());
      const double n = double(call.x().values.size()) / double(call.x().shape[1]);
      for (double& v : m.variance.values) v *= n / std::max(n - 1, 1.0);
      step.moments[layer.name + ".running_mean"] = m.mean;
      step.moments[layer.name + ".running_var"] = m.variance;
    }
  }
  return step;
}

Tensor infer(const Model& model, const NamedTensors& weights, const Tensor& images,
             std::span<const float> lengths) {
  return all_values({model, weights, lengths_in(model, images, lengths), false}, images).back();
}

}  // namespace dlflow::runtime::reference
