#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// The shape of a layer's result, from the shapes that it reads; and the tensors of its own.
namespace dlflow::runtime {

/// The values that a layer reads; `shapes` and `names` belong together.
struct LayerInputs {
  std::span<const TensorShape> shapes;
  std::span<const std::string> names;
};

/// Sets `layer.shape` from the shapes of its inputs. Returns what is wrong, without the place, or
/// an empty string.
std::string infer_shape(Layer& layer, const LayerInputs& inputs);

/// Standard deviation of the numbers that embeddings start with, as in GPT-2.
constexpr float kEmbeddingDeviation = 0.02f;

/// A tensor that belongs to a layer.
struct LayerTensor {
  std::string name;            ///< within the layer, as PyTorch would say: "weight", "running_mean"
  std::vector<int64_t> shape;  ///< plain: (out, in, height, width), (out, in) or (n)
  int64_t fan_in = 0;          ///< what its initial bound depends on; 0: starts at `initial`
  float initial = 0;
  bool trainable = true;  ///< false: a running statistic of batch normalisation
  float bound = 0;        ///< it starts uniform in +-bound; 0: as fan_in says
  float deviation = 0;    ///< it starts with normal random numbers of this standard deviation
};

/// The tensors of `layer`, whose first input is of shape `in`; none for most kinds.
std::vector<LayerTensor> tensors_of(const Layer& layer, const TensorShape& in);

}  // namespace dlflow::runtime
