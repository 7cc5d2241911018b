#include "base/finite.h"
#include "base/vector_clones.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

DLFLOW_VECTOR_CLONES
uint32_t descend_layer(float* __restrict weights, float* __restrict velocity,
                       const float* __restrict gradients, size_t count, MomentumFactors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float d = gradients[i] + f.weight_decay * weights[i];
    velocity[i] = f.momentum * velocity[i] + f.rate * d;
    weights[i] = weights[i] - velocity[i];
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

class Lars final : public RatedOptimizer {
 public:
  using RatedOptimizer::RatedOptimizer;

  std::vector<std::string> state_names() const override { return {".momentum"}; }

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    const MomentumFactors factors{float(options_.momentum), float(decay(layer)),
                                  float(rate(layer))};
    return all_finite(descend_layer(e.weights.data(), e.state[0].data(), gradients.data(),
                                    e.weights.size(), factors));
  }

  bool layer_wise() const override { return true; }

  double trust_ratio(double of_weights, double of_gradients,
                     const LayerTerms& layer) const override {
    if (of_weights == 0 || of_gradients == 0) return 1;
    return options_.trust * of_weights / (of_gradients + decay(layer) * of_weights);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options) {
  return std::make_unique<Lars>(options);
}

}  // namespace dlflow::runtime
