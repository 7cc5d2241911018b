#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

/// A network as data: which layers, in which order, and the shape of every value. TensorShape
/// letters: B batch, C channels, H height, W width, F features. docs/user/model-format.md describes
/// the YAML.
namespace dlflow::runtime {

/// The shape of one sample's value, without B: (C,H,W) or (F).
using TensorShape = std::vector<int64_t>;

/// "(B,1,28,28)"
std::string to_string(const TensorShape& shape);

enum class LayerKind {
#define DLFLOW_LAYER(Kind, word, required, optional, relu, gpu) Kind,
#include "runtime/nn/layers.def"
#undef DLFLOW_LAYER
};

/// As it is written in YAML: "conv2d", "max_pool", ...
std::string name(LayerKind kind);

/// In Layer::inputs: what the network is given, instead of the result of a layer.
constexpr int kImages = -1;

struct Layer {
  LayerKind kind = LayerKind::Relu;
  std::string name;         ///< unique; "layer1.0.conv1" when it comes from a block
  std::vector<int> inputs;  ///< indices of earlier layers, or kImages; two for Add, else one
  int64_t units = 0;        ///< Conv2d: output channels; Linear: output features
  int64_t kernel = 0;       ///< Conv2d, MaxPool, AvgPool: a square of kernel x kernel
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = true;   ///< Conv2d, Linear
  TensorShape shape;  ///< of the result
  int line = 0;       ///< where it is written, from 1
  int column = 0;
  bool operator==(const Layer&) const = default;
};

/// A valid network: inputs precede their layers, shapes agree, every result but the last is used,
/// and the last is (F): one score per class, which softmax cross-entropy is applied to.
struct Model {
  std::string name;
  TensorShape input;
  std::vector<Layer> layers;
  std::string text;  ///< the YAML it was read from; a checkpoint carries it

  int64_t num_classes() const { return layers.back().shape.front(); }

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
