#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

/// A network as data: its layers in order, and the shape of every value. TensorShape letters: B
/// batch, C channels, H height, W width, T positions of a sequence, F features.
/// docs/user/model-format.md describes the YAML.
namespace dlflow::runtime {

/// The shape of one sample's value, without B: (C,H,W), (T,F) or (F).
using TensorShape = std::vector<int64_t>;

/// "(B,1,28,28)"
std::string to_string(const TensorShape& shape);

/// The product of the sizes; 1 for an empty shape.
inline int64_t num_numbers(const TensorShape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

enum class LayerKind {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) Kind,
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
};

/// The word in YAML: "conv2d", "max_pool", ...
std::string name(LayerKind kind);

/// In Layer::inputs: the network's input, instead of the result of a layer.
constexpr int kImages = -1;

/// A number for each of the two directions of a map.
struct Extent {
  int64_t height = 0, width = 0;

  Extent() = default;
  Extent(int64_t side) : height(side), width(side) {}
  Extent(int64_t the_height, int64_t the_width) : height(the_height), width(the_width) {}
  bool operator==(const Extent&) const = default;
};

/// "3" for a square, else "[3, 5]".
std::string to_string(const Extent& extent);

/// How a layer's weight is initialised.
enum class Init {
  PyTorch,  ///< uniform in +-1/sqrt(fan_in), bias likewise; normalisations start at 1
  He,       ///< normal with variance 2/fan_in; the bias is 0
  Xavier,   ///< uniform in +-sqrt(6/(fan_in + fan_out)); the bias is 0
  Zero,     ///< for normalisations
};

/// How a Conv2d is computed on CPUs; results differ in their last bits.
enum class ConvolutionAlgorithm {
  Auto,    ///< by rules on shapes
  Direct,  ///< sums over the window
  Winograd,
};

/// The word in YAML: "auto", "direct" or "winograd".
std::string name(ConvolutionAlgorithm algorithm);

struct Layer {
  LayerKind kind = LayerKind::Relu;
  std::string name = {};         ///< unique; "layer1.0.conv1" if it comes from a block
  std::vector<int> inputs = {};  ///< indices of earlier layers, or kImages; several for Add and
                                 ///< Concat
  int64_t units = 0;   ///< convolutions: output channels; Linear, Embedding: output features
  Extent kernel = {};  ///< of convolutions and pools; square for pools
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;        ///< Conv2d: distance between the pixels of a window
  int64_t groups = 1;         ///< Conv2d, GroupNorm: sets of channels computed separately
  Extent size = {};           ///< AdaptiveAvgPool: size of the result
  int64_t scale = 1;          ///< Upsample
  double rate = 0;            ///< Dropout, StochasticDepth: probability that a number becomes 0
  double slope = 0;           ///< LeakyRelu: slope below 0
  int64_t vocabulary = 0;     ///< Embedding: number of tokens. Positions: rows; 0: one per position
  int64_t heads = 0;          ///< Attention: number of query heads
  int64_t kv_heads = 0;       ///< Attention: number of key and value heads; divides `heads`
  bool causal = true;         ///< Attention: a position attends to itself and earlier ones
  bool rotary = false;        ///< Attention: queries and keys are rotated by their position
  int tied = kImages;         ///< Linear: index of the Embedding whose weight it shares, or kImages
  bool bias = true;           ///< convolutions, Linear
  Init init = Init::PyTorch;  ///< convolutions, Linear; BatchNorm and GroupNorm: PyTorch or Zero
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::Auto;  ///< Conv2d
  bool frozen = false;     ///< its tensors do not change; BatchNorm uses the running statistics
  TensorShape shape = {};  ///< of the result
  int line = 0;            ///< in the model file, from 1
  int column = 0;
  bool operator==(const Layer&) const = default;
};

/// The loss, by the target that the network's scores are compared with.
enum class LossKind {
  SoftmaxCrossEntropy,  ///< the label of the sample: scores are (F), one per class
  NextToken,            ///< the token after each position: scores are (T,F), one per token
  Reconstruction,       ///< the input itself, by mean squared error: scores have its shape
  MeanSquaredError,     ///< the targets of the sample: scores are (F), one per target
  AbsoluteError,
  Huber,               ///< half the squared difference up to 1, linear beyond
  BinaryCrossEntropy,  ///< targets are 0 or 1: scores are the logits of 1
  PixelCrossEntropy,   ///< the class of each pixel: scores are (classes,H,W)
  Dice,
  PixelCrossEntropyAndDice,  ///< the sum of both
};

/// Whether the loss compares scores with the targets of a sample.
constexpr bool has_targets(LossKind loss) {
  return loss >= LossKind::MeanSquaredError && loss <= LossKind::BinaryCrossEntropy;
}

/// Whether the loss compares scores with a mask, the class of each pixel of a sample.
constexpr bool has_masks(LossKind loss) { return loss >= LossKind::PixelCrossEntropy; }

/// In masks: the pixel is ignored.
constexpr uint32_t kIgnoredClass = 255;

/// The word in YAML: "mse", "next_token", …
std::string name(LossKind loss);

/// A valid network: inputs precede their layers, shapes agree, every result but the last is used,
/// and the last gives the scores that `loss` needs.
struct Model {
  std::string name;
  TensorShape input;
  LossKind loss = LossKind::SoftmaxCrossEntropy;
  Init init = Init::PyTorch;             ///< of convolutions and Linear without their own
  std::optional<int64_t> ignored_token;  ///< NextToken: never a target
  std::vector<Layer> layers;
  std::string text;  ///< the YAML of the model; checkpoints carry it

  /// Number of classes, or of targets if the loss has them.
  int64_t num_classes() const {
    const TensorShape& scores = layers.back().shape;
    return has_masks(loss) ? scores.front() : scores.back();
  }

  /// Number of scores of one sample.
  int64_t num_scores() const { return num_numbers(layers.back().shape); }

  /// Name of the layer's weight tensor: its own, or that of the embedding it is tied to.
  std::string weight_of(const Layer& layer) const {
    return (layer.tied == kImages ? layer : layers[size_t(layer.tied)]).name + ".weight";
  }

  /// Whether the input consists of token numbers, which must not be normalised.
  bool takes_tokens() const {
    return std::ranges::any_of(layers, [](const Layer& layer) {
      return layer.kind == LayerKind::Embedding && layer.inputs[0] == kImages;
    });
  }

  /// The shape of the value `index` that a layer reads: the input, or the result of a layer.
  const TensorShape& shape_of(int index) const {
    return index == kImages ? input : layers[size_t(index)].shape;
  }
};

/// An error in a model file, with its location; line 0 is the file as a whole.
struct ModelDiagnostic {
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;
  bool operator==(const ModelDiagnostic&) const = default;
};

/// All errors of a model file. what() has one "file:line:column: error: message" per line.
class ModelError : public Error {
 public:
  explicit ModelError(std::vector<ModelDiagnostic> diagnostics);
  const std::vector<ModelDiagnostic>& diagnostics() const noexcept { return diagnostics_; }

 private:
  std::vector<ModelDiagnostic> diagnostics_;
};

/// Reads a model from YAML. Messages refer to it as `file`. Allocates nothing for the network
/// itself. Throws ModelError with all errors.
Model parse_model(const std::string& text, const std::string& file);

}  // namespace dlflow::runtime
