#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// The shape of a layer's result, inferred from its inputs, and the layer's tensors.
namespace dlflow::runtime {

/// The values that a layer reads; `shapes` and `names` have the same order.
struct LayerInputs {
  std::span<const TensorShape> shapes;
  std::span<const std::string> names;
};

/// Sets `layer.shape` from the shapes of its inputs. Returns the error, without its location, or an
/// empty string.
std::string infer_shape(Layer& layer, const LayerInputs& inputs);

/// Whether Winograd's algorithm computes convolutions of this form, on maps of any size.
bool has_winograd_form(const Layer& layer);

/// Standard deviation of the initial values of embeddings, as in GPT-2.
constexpr float kEmbeddingDeviation = 0.02f;

/// A tensor that belongs to a layer.
struct LayerTensor {
  std::string name;            ///< within the layer, as in PyTorch: "weight", "running_mean"
  std::vector<int64_t> shape;  ///< plain: (out, in, height, width), (out, in) or (n)
  int64_t fan_in = 0;          ///< determines the initial bound; 0: starts at `initial`
  float initial = 0;
  bool trainable = true;  ///< false: a running statistic of batch normalisation
  float bound = 0;        ///< starts uniform in +-bound; 0: determined by fan_in
  float deviation = 0;    ///< starts with normal random numbers of this standard deviation
};

/// The tensors of `layer`, whose first input has shape `in`; none for most kinds.
std::vector<LayerTensor> tensors_of(const Layer& layer, const TensorShape& in);

}  // namespace dlflow::runtime
