#include "base/finite.h"
#include "runtime/optim/moments.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
uint32_t descend(float* __restrict weights, float* __restrict m, float* __restrict v,
                 const float* __restrict gradients, size_t count, Moments moments,
                 float weight_decay, float rate) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float g = gradients[i] + weight_decay * weights[i];
    weights[i] = weights[i] - rate * moments.direction(g, m[i], v[i]);
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

class Adam final : public MomentsOptimizer {
 public:
  using MomentsOptimizer::MomentsOptimizer;

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    return all_finite(descend(e.weights.data(), e.state[0].data(), e.state[1].data(),
                              gradients.data(), e.weights.size(), moments(), float(decay(layer)),
                              float(rate(layer))));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options) {
  return std::make_unique<Adam>(options);
}

}  // namespace dlflow::runtime
