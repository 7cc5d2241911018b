#include "runtime/nn/reference/reference_network.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "runtime/nn/draws.h"
#include "runtime/nn/reference/more_layers.h"

namespace dlflow::runtime::reference {
namespace {

Window window_of(const Layer& layer) {
  return {layer.kernel, layer.stride, layer.padding, layer.dilation};
}

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

/// A layer with its weights and inputs. Each row of layers.def has two functions that take a Call.
struct Call {
  const Layer& layer;
  Tensor weight, bias;  // empty if the layer has none
  const NamedTensors& weights;
  bool training;
  Lengths lengths;                    // of padded texts; else empty
  std::vector<const Tensor*> inputs;  // all inputs
  const Tensor& x;                    // the first input

  Window window() const { return window_of(layer); }
};

/// A Call with the result and its gradient.
struct BackwardCall : Call {
  const Tensor& y;
  const Tensor& dy;
};

/// For layers without weights. A layer with several inputs gives all of them the same gradient.
Gradients without_weights(Tensor dx) { return {std::move(dx), Tensor(), Tensor(), {}}; }

Tensor forward_conv2d(const Call& c) {
  return conv2d(c.x, c.weight, c.bias, c.window(), c.layer.groups);
}
Gradients backward_conv2d(const BackwardCall& c) {
  return conv2d_backward(c.x, c.weight, c.dy, c.window(), c.layer.groups);
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

/// Applies `function` to each number.
template <typename Function>
Tensor each(const Tensor& x, Function function) {
  Tensor y = x;
  for (double& v : y.values) v = function(v);
  return y;
}

/// Multiplies `dy` by `slope` of each number of `x`.
template <typename Slope>
Gradients each_backward(const BackwardCall& c, Slope slope) {
  Tensor dx = c.dy;
  for (size_t i = 0; i < dx.values.size(); ++i) dx[i] *= slope(c.x[i]);
  return without_weights(dx);
}

/// The standard normal distribution and its density, at x.
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

Tensor forward_conv_transpose2d(const Call& c) {
  std::vector<int64_t> shape = c.layer.shape;
  shape.insert(shape.begin(), c.x.shape[0]);
  return conv_transpose2d(c.x, c.weight, c.bias, c.window(), shape);
}
Gradients backward_conv_transpose2d(const BackwardCall& c) {
  return conv_transpose2d_backward(c.x, c.weight, c.dy, c.window());
}

Tensor forward_relu6(const Call& c) {
  return each(c.x, [](double x) { return std::clamp(x, 0.0, 6.0); });
}
Gradients backward_relu6(const BackwardCall& c) {
  return each_backward(c, [](double x) { return x > 0 && x < 6 ? 1.0 : 0.0; });
}

Tensor forward_leaky_relu(const Call& c) {
  return each(c.x, [&](double x) { return x > 0 ? x : x * c.layer.slope; });
}
Gradients backward_leaky_relu(const BackwardCall& c) {
  return each_backward(c, [&](double x) { return x > 0 ? 1 : c.layer.slope; });
}

Tensor forward_group_norm(const Call& c) {
  return group_norm(c.x, c.weight, c.bias, c.layer.groups);
}
Gradients backward_group_norm(const BackwardCall& c) {
  return group_norm_backward(c.x, c.weight, c.dy, c.layer.groups);
}

Tensor forward_layer_norm(const Call& c) { return row_norm(c.x, c.weight, c.bias, true); }
Gradients backward_layer_norm(const BackwardCall& c) {
  return row_norm_backward(c.x, c.weight, c.dy, true);
}

Tensor forward_rms_norm(const Call& c) { return row_norm(c.x, c.weight, Tensor(), false); }
Gradients backward_rms_norm(const BackwardCall& c) {
  return row_norm_backward(c.x, c.weight, c.dy, false);
}

Tensor forward_softmax(const Call& c) { return softmax(c.x); }
Gradients backward_softmax(const BackwardCall& c) {
  return without_weights(softmax_backward(c.y, c.dy));
}

/// The factor of each number.
Tensor dropout_factors(const Call& c) {
  const bool whole = c.layer.kind == LayerKind::StochasticDepth;
  const std::vector<int64_t>& shape = c.x.shape;
  Tensor factors(shape);
  std::ranges::fill(factors.values, 1.0);
  if (!c.training || c.layer.rate == 0) return factors;
  const size_t size = factors.values.size() / size_t(shape[0]);
  const size_t channels = shape.size() == 4 ? size_t(shape[1]) : 1, pixels = size / channels;
  std::vector<uint8_t> keeps(size);
  for (size_t b = 0; b < size_t(shape[0]); ++b) {
    const LayerDraws draws({}, c.layer.name);
    draws.draw(uint32_t(b), c.layer.rate, whole ? std::span(keeps).first(1) : std::span(keeps));
    for (size_t i = 0; i < size; ++i) {
      const size_t place = channels == 1 ? i : i % pixels * channels + i / pixels;
      factors[b * size + i] = keeps[whole ? 0 : place] / (1 - c.layer.rate);
    }
  }
  return factors;
}

Tensor times(Tensor x, const Tensor& factors) {
  for (size_t i = 0; i < x.values.size(); ++i) x[i] *= factors[i];
  return x;
}

Tensor forward_dropout(const Call& c) { return times(c.x, dropout_factors(c)); }
Gradients backward_dropout(const BackwardCall& c) {
  return without_weights(times(c.dy, dropout_factors(c)));
}

Tensor forward_stochastic_depth(const Call& c) { return forward_dropout(c); }
Gradients backward_stochastic_depth(const BackwardCall& c) { return backward_dropout(c); }

Tensor forward_adaptive_avg_pool(const Call& c) { return adaptive_avg_pool(c.x, c.layer.size); }
Gradients backward_adaptive_avg_pool(const BackwardCall& c) {
  return without_weights(adaptive_avg_pool_backward(c.x, c.dy));
}

Tensor forward_upsample(const Call& c) { return upsample(c.x, c.layer.scale); }
Gradients backward_upsample(const BackwardCall& c) {
  return without_weights(upsample_backward(c.x, c.dy, c.layer.scale));
}

/// Sequences are concatenated along the last dimension, others along the first after B.
size_t joined(const Tensor& x) { return x.shape.size() == 3 ? 2 : 1; }

Tensor forward_concat(const Call& c) { return concat(c.inputs, joined(c.x)); }
Gradients backward_concat(const BackwardCall& c) {
  return {Tensor(), Tensor(), Tensor(), split(c.dy, c.inputs, joined(c.x))};
}

Tensor forward_embedding(const Call& c) { return embedding(c.x, c.weight); }
Gradients backward_embedding(const BackwardCall& c) {
  return {Tensor(c.x.shape), embedding_backward(c.x, c.weight, c.dy), Tensor(), {}};
}

Tensor forward_positions(const Call& c) {
  Tensor y = c.x;
  const size_t rows = c.weight.values.size();
  for (size_t i = 0; i < y.values.size(); ++i) y[i] += c.weight[i % rows];
  return y;
}
Gradients backward_positions(const BackwardCall& c) {
  Tensor d(c.weight.shape);
  for (size_t i = 0; i < c.dy.values.size(); ++i) d[i % d.values.size()] += c.dy[i];
  return {c.dy, d, Tensor(), {}};
}

Heads heads_of(const Layer& l) { return {l.heads, l.kv_heads, l.causal, l.rotary}; }

Tensor forward_attention(const Call& c) { return attention(c.x, heads_of(c.layer), c.lengths); }
Gradients backward_attention(const BackwardCall& c) {
  return without_weights(attention_backward(c.x, c.dy, heads_of(c.layer), c.lengths));
}

Tensor forward_mean_pool(const Call& c) { return mean_pool(c.x, c.lengths); }
Gradients backward_mean_pool(const BackwardCall& c) {
  return without_weights(mean_pool_backward(c.x, c.dy, c.lengths));
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
  add_to(y, *c.inputs[1]);
  return y;
}
Gradients backward_add(const BackwardCall& c) { return without_weights(c.dy); }

/// The arguments of a pass that all layers share.
struct Pass {
  const Model& model;
  const NamedTensors& weights;
  Lengths lengths;
  bool training;
};

/// `value(i)` returns the value with index i in Layer::inputs.
template <typename Value>
Call call_of(const Pass& pass, const Layer& layer, Value value) {
  std::vector<const Tensor*> inputs;
  for (const int i : layer.inputs) inputs.push_back(&value(i));
  return {layer,
          get(pass.weights, pass.model.weight_of(layer)),
          get(pass.weights, layer.name + ".bias"),
          pass.weights,
          pass.training,
          pass.lengths,
          inputs,
          *inputs[0]};
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

/// For texts that have a class: the number of tokens of each, if `numbers` holds them.
Lengths lengths_in(const Model& model, const Tensor& images, std::span<const float> numbers) {
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy && model.takes_tokens();
  return has_classes && int64_t(numbers.size()) == images.shape[0] ? numbers : Lengths();
}

/// The result of each layer.
std::vector<Tensor> all_values(const Pass& pass, const Tensor& images) {
  std::vector<Tensor> values;
  const auto value = [&](int i) -> const Tensor& {
    return i == kImages ? images : values[size_t(i)];
  };
  for (const Layer& layer : pass.model.layers) {
    values.push_back(forward(call_of(pass, layer, value)));
  }
  return values;
}

}  // namespace

namespace {

/// Returns the loss and puts its gradient in `d`. The target of a position is the token after it.
double next_token_loss(const Tensor& scores, const Tensor& tokens, std::optional<int64_t> ignored,
                       Tensor& d) {
  d = Tensor(scores.shape);
  const auto length = size_t(scores.shape[1]), classes = size_t(scores.shape[2]);
  double loss = 0;
  for (size_t b = 0; b < size_t(scores.shape[0]); ++b) {
    std::vector<size_t> positions;
    for (size_t t = 0; t + 1 < length; ++t) {
      if (int64_t(tokens[b * length + t + 1]) != ignored) positions.push_back(b * length + t);
    }
    for (const size_t at : positions) {
      Tensor row({1, scores.shape[2]});
      std::copy_n(scores.values.begin() + long(at * classes), classes, row.values.begin());
      const std::vector<uint32_t> target = {uint32_t(tokens[at + 1])};
      loss += softmax_cross_entropy(row, target) / double(positions.size());
      const Tensor slope = softmax_cross_entropy_backward(row, target);
      for (size_t i = 0; i < classes; ++i) {
        d[at * classes + i] = slope[i] / double(positions.size());
      }
    }
  }
  return loss;
}

/// Returns the sum over samples of the mean squared difference, and its gradient in `d`.
double reconstruction_loss(const Tensor& scores, const Tensor& images, Tensor& d) {
  d = Tensor(scores.shape);
  const double share = double(scores.shape[0]) / double(scores.values.size());
  double loss = 0;
  for (size_t i = 0; i < scores.values.size(); ++i) {
    const double difference = scores[i] - images[i];
    loss += difference * difference * share;
    d[i] = 2 * difference * share;
  }
  return loss;
}

/// Returns the sum over samples of the mean over their targets, and its gradient in `d`.
double target_loss(LossKind kind, const Tensor& scores, std::span<const float> targets, Tensor& d) {
  d = Tensor(scores.shape);
  const double share = double(scores.shape[0]) / double(scores.values.size());
  double loss = 0;
  for (size_t i = 0; i < scores.values.size(); ++i) {
    const double x = scores[i] - double(targets[i]), size = std::abs(x);
    const double sign = double(x > 0) - double(x < 0);
    const double probability = 1 / (1 + std::exp(-scores[i]));
    if (kind == LossKind::MeanSquaredError) {
      loss += x * x * share;
      d[i] = 2 * x * share;
    } else if (kind == LossKind::AbsoluteError) {
      loss += size * share;
      d[i] = sign * share;
    } else if (kind == LossKind::Huber) {
      loss += (size <= 1 ? x * x / 2 : size - 0.5) * share;
      d[i] = (size <= 1 ? x : sign) * share;
    } else {
      loss -= std::log(targets[i] > 0 ? probability : 1 - probability) * share;
      d[i] = (probability - double(targets[i])) * share;
    }
  }
  return loss;
}

/// exp(score) / (sum over classes), for each pixel of (B, C, H, W).
Tensor pixel_softmax(const Tensor& scores) {
  Tensor p(scores.shape);
  const auto classes = size_t(scores.shape[1]), pixels = size_t(scores.shape[2] * scores.shape[3]);
  for (size_t b = 0; b < size_t(scores.shape[0]); ++b) {
    for (size_t i = 0; i < pixels; ++i) {
      const auto at = [&](size_t c) { return (b * classes + c) * pixels + i; };
      double sum = 0;
      for (size_t c = 0; c < classes; ++c) sum += std::exp(scores[at(c)]);
      for (size_t c = 0; c < classes; ++c) p[at(c)] = std::exp(scores[at(c)]) / sum;
    }
  }
  return p;
}

/// Sums over samples cross-entropy (the mean over the pixels that count) and Dice, and puts the
/// gradient in `d`. \param mask  (B, H * W)
double pixel_loss(LossKind kind, const Tensor& scores, std::span<const float> mask, Tensor& d) {
  d = Tensor(scores.shape);
  const Tensor p = pixel_softmax(scores);
  const auto classes = size_t(scores.shape[1]), pixels = size_t(scores.shape[2] * scores.shape[3]);
  double loss = 0;
  for (size_t b = 0; b < size_t(scores.shape[0]); ++b) {
    const std::span<const float> truth = mask.subspan(b * pixels, pixels);
    const auto at = [&](size_t c, size_t i) { return (b * classes + c) * pixels + i; };
    const auto counts = [&](size_t i) { return truth[i] != float(kIgnoredClass); };
    const auto is = [&](size_t c, size_t i) { return truth[i] == float(c) ? 1.0 : 0.0; };
    double counted = 0;
    for (size_t i = 0; i < pixels; ++i) counted += counts(i) ? 1 : 0;
    Tensor slope({scores.shape[1], int64_t(pixels)});  // of the loss by probability
    for (size_t c = 0; c < classes; ++c) {
      double both = 0, all = 0;
      for (size_t i = 0; i < pixels; ++i) {
        if (!counts(i)) continue;
        both += p[at(c, i)] * is(c, i);
        all += p[at(c, i)] + is(c, i);
      }
      const double dice = (2 * both + 1) / (all + 1);
      if (kind != LossKind::PixelCrossEntropy) loss += (1 - dice) / double(classes);
      for (size_t i = 0; i < pixels; ++i) {
        if (!counts(i)) continue;
        if (kind != LossKind::PixelCrossEntropy) {
          slope[c * pixels + i] -= (2 * is(c, i) - dice) / (all + 1) / double(classes);
        }
        if (kind == LossKind::Dice || is(c, i) == 0) continue;
        loss -= std::log(p[at(c, i)]) / counted;
        slope[c * pixels + i] -= 1 / p[at(c, i)] / counted;
      }
    }
    for (size_t i = 0; i < pixels; ++i) {
      double mean = 0;
      for (size_t c = 0; c < classes; ++c) mean += p[at(c, i)] * slope[c * pixels + i];
      for (size_t c = 0; c < classes; ++c) {
        d[at(c, i)] = p[at(c, i)] * (slope[c * pixels + i] - mean);
      }
    }
  }
  return loss;
}

}  // namespace

Step train_step(const Model& model, const NamedTensors& weights, const Tensor& images,
                std::span<const uint32_t> labels, std::span<const float> targets) {
  const Lengths lengths = lengths_in(model, images, targets);
  const Pass pass = {model, weights, lengths, true};
  const std::vector<Tensor> values = all_values(pass, images);
  Step step;
  step.scores = values.back();
  std::vector<Tensor> d(values.size());
  if (model.loss == LossKind::NextToken) {
    step.loss_sum = next_token_loss(step.scores, images, model.ignored_token, d.back());
  } else if (model.loss == LossKind::Reconstruction) {
    step.loss_sum = reconstruction_loss(step.scores, images, d.back());
  } else if (has_masks(model.loss)) {
    step.loss_sum = pixel_loss(model.loss, step.scores, targets, d.back());
  } else if (has_targets(model.loss)) {
    step.loss_sum = target_loss(model.loss, step.scores, targets, d.back());
  } else {
    step.loss_sum = softmax_cross_entropy(step.scores, labels);
    d.back() = softmax_cross_entropy_backward(step.scores, labels);
  }
  for (size_t i = values.size(); i-- > 0;) {
    const Layer& layer = model.layers[i];
    const auto value = [&](int j) -> const Tensor& {
      return j == kImages ? images : values[size_t(j)];
    };
    const Call call = call_of(pass, layer, value);
    const Tensor& x = call.x;
    Gradients gradients = backward({call, values[i], d[i]});
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const int j = layer.inputs[k];
      if (j != kImages) {
        add_to(d[size_t(j)], gradients.inputs.empty() ? gradients.x : gradients.inputs[k]);
      }
    }
    if (!call.weight.values.empty()) {
      add_to(step.gradients[model.weight_of(layer)], gradients.weight);
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

Tensor infer(const Model& model, const NamedTensors& weights, const Tensor& images,
             std::span<const float> lengths) {
  return all_values({model, weights, lengths_in(model, images, lengths), false}, images).back();
}

}  // namespace dlflow::runtime::reference
