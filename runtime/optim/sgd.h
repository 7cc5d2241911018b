#pragma once

#include <span>

namespace dlflow::runtime {

struct SgdOptions {
  float momentum = 0.9f;
  float weight_decay = 0;  ///< an L2 penalty on every parameter, as a part of the gradient

  bool operator==(const SgdOptions&) const = default;
};

/// One step of stochastic gradient descent with momentum, element by element, in PyTorch's formula
/// and order:
///   d = gradient + weight_decay * weight;  v = momentum * v + d;  weight = weight - rate * v.
/// False if a weight is not a finite number now: looked for in passing, at no cost.
///
/// All spans have the same size and may be any part of the whole; the velocities v are zero before
/// the first step. No fused multiply-add, so that every CPU computes the same bits.
/// Source: torch.optim.SGD with dampening 0; Sutskever et al., ICML 2013.
[[nodiscard]] bool sgd_step(const SgdOptions& options, float learning_rate,
                            std::span<const float> gradients, std::span<float> velocity,
                            std::span<float> weights);

}  // namespace dlflow::runtime
