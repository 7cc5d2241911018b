#include "runtime/generate/token_network.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/vector_clones.h"
#include "runtime/nn/lanes.h"

namespace dlflow::runtime {
namespace {

constexpr float kRowEpsilon = 1e-5f;

DLFLOW_INLINE float product(const float* a, const float* b, int64_t count) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    sum += load<true>(a + i, kLanes) * load<true>(b + i, kLanes);
  }
  if (i < count) sum += load<false>(a + i, count - i) * load<false>(b + i, count - i);
  return sum_of(sum);
}

/// y = W x + b for rows [first, last) of W (rows, columns); b may be null.
DLFLOW_VECTOR_CLONES
void multiply_rows(const float* weight, const float* x, const float* bias, int64_t first,
                   int64_t last, int64_t columns, float* y) {
  for (int64_t row = first; row < last; ++row) {
    y[row] = product(weight + row * columns, x, columns) + (bias != nullptr ? bias[row] : 0.0f);
  }
}

/// Rows are computed alone, so their bits do not depend on the threads.
void multiply(std::span<const float> weight, std::span<const float> x, std::span<const float> bias,
              std::span<float> y) {
  constexpr int64_t kRowsAtOnce = 64, kSmallest = 1 << 18;
  const auto rows = int64_t(y.size()), columns = int64_t(x.size());
  const float* const b = bias.empty() ? nullptr : bias.data();
#pragma omp parallel for if (rows * columns > kSmallest)
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    multiply_rows(weight.data(), x.data(), b, first, std::min(rows, first + kRowsAtOnce), columns,
                  y.data());
  }
}

/// shares[s] = q k_s for the keys of `count` positions, `stride` numbers apart.
DLFLOW_VECTOR_CLONES
void compare(const float* q, const float* keys, int64_t stride, int64_t count, int64_t size,
             float scale, float* shares) {
  for (int64_t s = 0; s < count; ++s) shares[s] = scale * product(q, keys + s * stride, size);
}

/// y = the sum of shares[s] v_s.
DLFLOW_VECTOR_CLONES
void mix(const float* shares, const float* values, int64_t stride, int64_t count, int64_t size,
         float* y) {
  std::fill_n(y, size, 0.0f);
  for (int64_t s = 0; s < count; ++s) {
    const float* const v = values + s * stride;
    for (int64_t i = 0; i < size; ++i) y[i] += shares[s] * v[i];
  }
}

void softmax(std::span<float> x) {
  const float highest = *std::ranges::max_element(x);
  double sum = 0;
  for (float& value : x) sum += value = std::exp(value - highest);
  for (float& value : x) value = float(value / sum);
}

/// The two halves of a head turn by the angles of `position`.
void rotate(std::span<float> head, size_t position) {
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle = double(position) * std::pow(10000.0, -double(i) / double(half));
    const auto cosine = float(std::cos(angle)), sine = float(std::sin(angle));
    const float a = head[i], b = head[i + half];
    head[i] = a * cosine - b * sine;
    head[i + half] = b * cosine + a * sine;
  }
}

void normalise(std::span<const float> x, bool centred, std::span<const float> weight,
               std::span<const float> bias, std::span<float> y) {
  const auto count = double(x.size());
  double mean = 0, square = 0;
  if (centred) {
    for (const float value : x) mean += double(value) / count;
  }
  for (const float value : x) square += (value - mean) * (value - mean) / count;
  const double scale = 1 / std::sqrt(square + double(kRowEpsilon));
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = float((x[i] - mean) * scale) * weight[i] + (bias.empty() ? 0.0f : bias[i]);
  }
}

/// A layer that maps each number alone.
struct NumberLayer {
  LayerKind kind;
  float (*function)(float x, float slope);
};

constexpr NumberLayer kNumberLayers[] = {
    {LayerKind::Relu, [](float x, float) { return x < 0 ? 0 : x; }},
    {LayerKind::Relu6, [](float x, float) { return x < 0 ? 0 : std::min(x, 6.0f); }},
    {LayerKind::LeakyRelu, [](float x, float slope) { return x < 0 ? slope * x : x; }},
    {LayerKind::Gelu,
     [](float x, float) { return 0.5f * x * (1 + std::erf(x * float(M_SQRT1_2))); }},
    {LayerKind::Sigmoid, [](float x, float) { return 1 / (1 + std::exp(-x)); }},
    {LayerKind::Silu, [](float x, float) { return x / (1 + std::exp(-x)); }},
    {LayerKind::Tanh, [](float x, float) { return std::tanh(x); }},
    {LayerKind::Dropout, [](float x, float) { return x; }},
    {LayerKind::StochasticDepth, [](float x, float) { return x; }},
};

/// The others that can be computed for one token.
constexpr LayerKind kRowLayers[] = {LayerKind::Embedding, LayerKind::Positions, LayerKind::Linear,
                                    LayerKind::Attention, LayerKind::LayerNorm, LayerKind::RmsNorm,
                                    LayerKind::Softmax,   LayerKind::Add};

const NumberLayer* number_layer(LayerKind kind) {
  const auto* const found = std::ranges::find(kNumberLayers, kind, &NumberLayer::kind);
  return found == std::ranges::end(kNumberLayers) ? nullptr : found;
}

[[noreturn]] void refuse(const Layer& layer, const std::string& reason) {
  throw Error(Errc::InvalidInput, "layer '" + layer.name + "' (" + name(layer.kind) + ") " +
                                      reason + ": text is generated token by token");
}

void require_token_by_token(const Layer& layer) {
  const bool reads_tokens = layer.inputs[0] == kImages;
  if (reads_tokens != (layer.kind == LayerKind::Embedding)) {
    refuse(layer, "reads the tokens as numbers");
  }
  if (layer.kind == LayerKind::Attention && !layer.causal) {
    refuse(layer, "looks at the tokens behind, with 'causal: false'");
  }
  const bool is_row_layer = std::ranges::count(kRowLayers, layer.kind) > 0;
  if (!is_row_layer && number_layer(layer.kind) == nullptr) {
    refuse(layer, "needs more than one token");
  }
}

}  // namespace

TokenNetwork::TokenNetwork(const Model& model, const TensorReader& read)
    : length_(size_t(model.input[0])), vocabulary_(size_t(model.num_classes())) {
  if (model.loss != LossKind::NextToken) {
    throw Error(Errc::InvalidInput, "model '" + model.name + "' has 'loss: " + name(model.loss) +
                                        "'; text is generated by language models, with 'loss: "
                                        "next_token'");
  }
  shares_.resize(length_);
  for (const Layer& layer : model.layers) {
    require_token_by_token(layer);
    steps_.push_back(make_step(model, layer, read));
  }
}

TokenNetwork::Step TokenNetwork::make_step(const Model& model, const Layer& layer,
                                           const TensorReader& read) {
  const auto is = [&](LayerKind kind) { return layer.kind == kind; };
  const auto features = size_t(layer.shape.back());
  Step step;
  step.layer = layer;
  step.result.resize(features);
  step.shared = layer.tied == kImages ? steps_.size() : size_t(layer.tied);
  size_t rows = 0;  // of the weight, with `features` numbers
  if (is(LayerKind::Embedding)) rows = size_t(layer.vocabulary);
  if (is(LayerKind::Positions)) rows = length_;
  if (is(LayerKind::LayerNorm) || is(LayerKind::RmsNorm)) rows = 1;
  if (is(LayerKind::Linear) && layer.tied == kImages) {
    rows = size_t(model.shape_of(layer.inputs[0]).back());
  }
  if (rows > 0) step.weight = read(layer.name + ".weight", rows * features);
  const bool may_have_bias = is(LayerKind::Linear) || is(LayerKind::LayerNorm);
  if (may_have_bias && layer.bias) step.bias = read(layer.name + ".bias", features);
  if (is(LayerKind::Embedding)) vocabulary_ = std::min(vocabulary_, rows);
  if (is(LayerKind::Attention)) {
    const size_t row = features / size_t(layer.heads) * size_t(layer.kv_heads);
    step.keys.resize(length_ * row);
    step.values.resize(length_ * row);
  }
  return step;
}

std::span<const float> TokenNetwork::input(const Step& step, size_t which) const {
  return steps_[size_t(step.layer.inputs[which])].result;
}

/// Appends key and value of this token, then looks at all so far.
void TokenNetwork::attend(Step& step, std::span<const float> x) {
  const auto heads = size_t(step.layer.heads), kv_heads = size_t(step.layer.kv_heads);
  const size_t size = step.result.size() / heads, row = kv_heads * size, count = position_ + 1;
  std::vector<float> queries(x.begin(), x.begin() + std::ptrdiff_t(heads * size));
  float* const key = step.keys.data() + position_ * row;
  std::copy_n(x.data() + heads * size, row, key);
  std::copy_n(x.data() + heads * size + row, row, step.values.data() + position_ * row);
  if (step.layer.rotary) {
    for (size_t h = 0; h < heads; ++h) rotate({queries.data() + h * size, size}, position_);
    for (size_t h = 0; h < kv_heads; ++h) rotate({key + h * size, size}, position_);
  }
  const float scale = 1 / std::sqrt(float(size));
  for (size_t h = 0; h < heads; ++h) {
    const size_t offset = h / (heads / kv_heads) * size;
    compare(queries.data() + h * size, step.keys.data() + offset, int64_t(row), int64_t(count),
            int64_t(size), scale, shares_.data());
    softmax(std::span(shares_).first(count));
    mix(shares_.data(), step.values.data() + offset, int64_t(row), int64_t(count), int64_t(size),
        step.result.data() + h * size);
  }
}

void TokenNetwork::compute(Step& step, uint32_t token) {
  const auto is = [&](LayerKind kind) { return step.layer.kind == kind; };
  const size_t features = step.result.size();
  const auto row_of_weight = [&](size_t row) {
    return std::span<const float>(step.weight).subspan(row * features, features);
  };
  const auto add = [&](std::span<const float> a, std::span<const float> b) {
    std::ranges::transform(a, b, step.result.begin(), std::plus());
  };
  if (is(LayerKind::Embedding)) {
    std::ranges::copy(row_of_weight(token), step.result.begin());
    return;
  }
  const std::span<const float> x = input(step);
  if (const NumberLayer* const layer = number_layer(step.layer.kind)) {
    const auto slope = float(step.layer.slope);
    std::ranges::transform(x, step.result.begin(),
                           [&](float value) { return layer->function(value, slope); });
  } else if (is(LayerKind::Positions)) {
    add(x, row_of_weight(position_));
  } else if (is(LayerKind::Add)) {
    add(x, input(step, 1));
  } else if (is(LayerKind::Linear)) {
    multiply(steps_[step.shared].weight, x, step.bias, step.result);
  } else if (is(LayerKind::Attention)) {
    attend(step, x);
  } else if (is(LayerKind::Softmax)) {
    std::ranges::copy(x, step.result.begin());
    softmax(step.result);
  } else {
    normalise(x, is(LayerKind::LayerNorm), step.weight, step.bias, step.result);
  }
}

std::span<const float> TokenNetwork::read(uint32_t token) {
  DLFLOW_CHECK(position_ < length_ && token < vocabulary_);
  for (Step& step : steps_) compute(step, token);
  ++position_;
  return steps_.back().result;
}

}  // namespace dlflow::runtime
