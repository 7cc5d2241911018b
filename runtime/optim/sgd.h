#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dlflow::runtime {

struct SgdOptions {
  float momentum = 0.9f;
  float weight_decay = 0;  ///< an L2 penalty on every parameter, as a part of the gradient

  bool operator==(const SgdOptions&) const = default;
};

/// Stochastic gradient descent with momentum, over all parameters as one flat buffer.
class Sgd {
 public:
  Sgd(size_t num_elements, SgdOptions options);

  /// One step, element by element, in PyTorch's formula and order:
  ///   d = gradient + weight_decay * weight;  v = momentum * v + d;  weight = weight - rate * v.
  /// Both spans: (num_elements). No fused multiply-add, so that every CPU computes the same bits.
  /// False if a weight is not a finite number now: looked for in passing, at no cost.
  /// Source: torch.optim.SGD with dampening 0; Sutskever et al., ICML 2013.
  [[nodiscard]] bool step(std::span<float> weights, std::span<const float> gradients,
                          float learning_rate);

  /// The velocities v (num_elements), zero at first: what a checkpoint keeps and restores.
  std::span<float> velocity() { return velocity_; }

 private:
  SgdOptions options_;
  std::vector<float> velocity_;
};

}  // namespace dlflow::runtime
