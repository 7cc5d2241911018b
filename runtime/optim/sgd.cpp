#include "runtime/optim/sgd.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

/// Returns the greatest of the weights' bits without the sign.
DLFLOW_VECTOR_CLONES
uint32_t update(float* __restrict weights, float* __restrict velocity,
                const float* __restrict gradients, size_t count, float momentum, float weight_decay,
                float learning_rate) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float d = gradients[i] + weight_decay * weights[i];
    const float v = momentum * velocity[i] + d;
    velocity[i] = v;
    const float w = weights[i] - learning_rate * v;
    weights[i] = w;
    greatest = std::max(greatest, std::bit_cast<uint32_t>(w) & 0x7FFFFFFF);
  }
  return greatest;
}

}  // namespace

bool sgd_step(const SgdOptions& options, float learning_rate, std::span<const float> gradients,
              std::span<float> velocity, std::span<float> weights) {
  DLFLOW_CHECK(weights.size() == velocity.size() && gradients.size() == velocity.size());
  const uint32_t greatest =
      update(weights.data(), velocity.data(), gradients.data(), weights.size(), options.momentum,
             options.weight_decay, learning_rate);
  return greatest < std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
}

}  // namespace dlflow::runtime
