#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

/// A network as data: which layers, in which order, and the shape of every value. TensorShape
/// letters: B batch, C channels, H height, W width, T positions of a sequence, F features.
/// docs/user/model-format.md describes the YAML.
namespace dlflow::runtime {

/// The shape of one sample's value, without B: (C,H,W), (T,F) or (F).
using TensorShape = std::vector<int64_t>;

/// "(B,1,28,28)"
std::string to_string(const TensorShape& shape);

/// The product of the sizes; 1 of none.
inline int64_t num_numbers(const TensorShape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

enum class LayerKind {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) Kind,
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
};

/// As it is written in YAML: "conv2d", "max_pool", ...
std::string name(LayerKind kind);

/// In Layer::inputs: what the network is given, instead of the result of a layer.
constexpr int kImages = -1;

/// A number for each of the two directions of a map.
struct Extent {
  int64_t height = 0, width = 0;

  Extent() = default;
  Extent(int64_t side) : height(side), width(side) {}
  Extent(int64_t the_height, int64_t the_width) : height(the_height), width(the_width) {}
  bool operator==(const Extent&) const = default;
};

/// "3" of a square, else "[3, 5]".
std::string to_string(const Extent& extent);

/// The first values of a layer's weight.
enum class Init {
  PyTorch,  ///< uniform in +-1/sqrt(fan_in), as its bias; normalisations at 1
  He,       ///< normal with variance 2/fan_in; the bias is 0
  Xavier,   ///< uniform in +-sqrt(6/(fan_in + fan_out)); the bias is 0
  Zero,     ///< of normalisations
};

struct Layer {
  LayerKind kind = LayerKind::Relu;
  std::string name;         ///< unique; "layer1.0.conv1" when it comes from a block
  std::vector<int> inputs;  ///< indices of earlier layers, or kImages; several for Add and
                            ///< Concat
  int64_t units = 0;        ///< convolutions: output channels; Linear, Embedding: output features
  Extent kernel;            ///< of convolutions and pools; pools have squares
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;     ///< Conv2d: distance between the pixels under a window
  int64_t groups = 1;      ///< Conv2d, GroupNorm: sets of channels that are computed on their own
  Extent size;             ///< AdaptiveAvgPool: of the result
  int64_t scale = 1;       ///< Upsample
  double rate = 0;         ///< Dropout, StochasticDepth: probability that a number becomes 0
  double slope = 0;        ///< LeakyRelu: below 0
  int64_t vocabulary = 0;  ///< Embedding: number of tokens. Positions: rows; 0: one for each
  int64_t heads = 0;       ///< Attention: of queries
  int64_t kv_heads = 0;    ///< Attention: of keys and values; divides `heads`
  bool causal = true;      ///< Attention: a position looks at itself and those before it
  bool rotary = false;     ///< Attention: queries and keys are rotated by their position
  int tied = kImages;      ///< Linear: the Embedding whose weight it uses, or none
  bool bias = true;        ///< convolutions, Linear
  Init init = Init::PyTorch;  ///< convolutions, Linear; BatchNorm and GroupNorm: PyTorch or Zero
  bool frozen = false;  ///< its tensors stay as they are; batch normalisation is by its statistics
  TensorShape shape;    ///< of the result
  int line = 0;         ///< where it is written, from 1
  int column = 0;
  bool operator==(const Layer&) const = default;
};

/// The target that the scores of a network are compared with.
enum class LossKind {
  SoftmaxCrossEntropy,  ///< the label of the sample: scores are (F), one per class
  NextToken,            ///< the token after each position: scores are (T,F), one per token
  Reconstruction,       ///< the input itself, by mean squared error: scores are of its shape
  MeanSquaredError,     ///< the targets of the sample: scores are (F), one per target
  AbsoluteError,
  Huber,               ///< half the square of a difference up to 1, beyond it grows linearly
  BinaryCrossEntropy,  ///< targets are 0 or 1: scores are the logits of 1
  PixelCrossEntropy,   ///< the class of each pixel: scores are (classes,H,W)
  Dice,
  PixelCrossEntropyAndDice,  ///< the sum of both
};

/// It compares scores with the targets of a sample.
constexpr bool has_targets(LossKind loss) {
  return loss >= LossKind::MeanSquaredError && loss <= LossKind::BinaryCrossEntropy;
}

/// It compares scores with a mask, the class of each pixel of a sample.
constexpr bool has_masks(LossKind loss) { return loss >= LossKind::PixelCrossEntropy; }

/// In masks: this pixel counts for nothing.
constexpr uint32_t kIgnoredClass = 255;

/// As it is written in YAML: "mse", "next_token", …
std::string name(LossKind loss);

/// A valid network: inputs precede their layers, shapes agree, every result but the last is used,
/// and the last has the scores that `loss` is applied to.
struct Model {
  std::string name;
  TensorShape input;
  LossKind loss = LossKind::SoftmaxCrossEntropy;
  Init init = Init::PyTorch;             ///< of convolutions and Linear that have none of their own
  std::optional<int64_t> ignored_token;  ///< NextToken: one that is no target
  std::vector<Layer> layers;
  std::string text;  ///< the YAML it was read from; a checkpoint carries it

  /// Or targets, of a loss that has them.
  int64_t num_classes() const {
    const TensorShape& scores = layers.back().shape;
    return has_masks(loss) ? scores.front() : scores.back();
  }

  /// Of the result of one sample.
  int64_t num_scores() const { return num_numbers(layers.back().shape); }

  /// The tensor that is the layer's weight: its own, or that of the embedding it is tied to.
  std::string weight_of(const Layer& layer) const {
    return (layer.tied == kImages ? layer : layers[size_t(layer.tied)]).name + ".weight";
  }

  /// Its input are numbers of tokens, which nothing may normalise.
  bool takes_tokens() const {
    return std::ranges::any_of(layers, [](const Layer& layer) {
      return layer.kind == LayerKind::Embedding && layer.inputs[0] == kImages;
    });
  }

  /// Of the value `index` that a layer reads: input, or the result of a layer.
  const TensorShape& shape_of(int index) const {
    return index == kImages ? input : layers[size_t(index)].shape;
  }
};

/// A mistake in a model file, with its place; line 0 is the file as a whole.
struct ModelDiagnostic {
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;
  bool operator==(const ModelDiagnostic&) const = default;
};

/// Every mistake of a model file. what() has one "file:line:column: error: message" per line.
class ModelError : public Error {
 public:
  explicit ModelError(std::vector<ModelDiagnostic> diagnostics);
  const std::vector<ModelDiagnostic>& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<ModelDiagnostic> diagnostics_;
};

/// Reads a model from YAML. `file` is what messages call it. Nothing is allocated for the network
/// itself. Throws ModelError with all mistakes.
Model parse_model(const std::string& text, const std::string& file);

}  // namespace dlflow::runtime
