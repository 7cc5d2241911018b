#pragma once

#include <map>
#include <string>

#include "runtime/nn/model.h"
#include "tests/support/reference/layers.h"

namespace dlflow::runtime::reference {

/// Tensors by their names in runtime/nn/weight_layout.h: "conv1.weight".
using NamedTensors = std::map<std::string, Tensor>;

struct Step {
  double loss_sum = 0;
  Tensor scores;           ///< (B, classes)
  NamedTensors gradients;  ///< of loss_sum, for each weight and bias
  NamedTensors moments;    ///< "bn1.running_mean", "bn1.running_var" of this batch; the latter
                           ///< divided by n-1
};

/// One training step of `model`, layer by layer in the order of the file, without fusion.
/// \param targets  (B, T), for losses that have them; masks as (B, H * W); or the number of tokens
///                 of each text, where these have classes
Step train_step(const Model& model, const NamedTensors& weights, const Tensor& images,
                std::span<const uint32_t> labels, std::span<const float> targets = {});

/// The scores, using the running statistics among `weights`.
/// \param lengths  the number of tokens of each text, where these have classes
Tensor infer(const Model& model, const NamedTensors& weights, const Tensor& images,
             std::span<const float> lengths = {});

}  // namespace dlflow::runtime::reference
