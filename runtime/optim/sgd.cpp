#include "base/finite.h"
#include "base/vector_clones.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
uint32_t descend_plain(float* __restrict weights, float* __restrict velocity,
                       const float* __restrict gradients, size_t count, MomentumFactors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float d = gradients[i] + f.weight_decay * weights[i];
    const float v = f.momentum * velocity[i] + d;
    velocity[i] = v;
    weights[i] = weights[i] - f.rate * v;
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

DLFLOW_VECTOR_CLONES
uint32_t descend_nesterov(float* __restrict weights, float* __restrict velocity,
                          const float* __restrict gradients, size_t count, MomentumFactors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float d = gradients[i] + f.weight_decay * weights[i];
    const float v = f.momentum * velocity[i] + d;
    velocity[i] = v;
    weights[i] = weights[i] - f.rate * (d + f.momentum * v);
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

class Sgd final : public RatedOptimizer {
 public:
  using RatedOptimizer::RatedOptimizer;

  /// Just the weight's name, as in checkpoints from before there were other optimizers.
  std::vector<std::string> state_names() const override { return {""}; }

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    const MomentumFactors factors{float(options_.momentum), float(decay(layer)),
                                  float(rate(layer))};
    const auto kernel = options_.nesterov ? descend_nesterov : descend_plain;
    return all_finite(
        kernel(e.weights.data(), e.state[0].data(), gradients.data(), e.weights.size(), factors));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options) {
  return std::make_unique<Sgd>(options);
}

}  // namespace dlflow::runtime
