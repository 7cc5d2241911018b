#include "base/finite.h"
#include "runtime/optim/moments.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

struct AdamFactors {
  Moments moments;
  float rate;
  float weights;  // Adam: the weight decay; AdamW: what is kept of a weight
};

DLFLOW_VECTOR_CLONES
uint32_t descend_coupled(float* __restrict weights, float* __restrict m, float* __restrict v,
                         std::span<const float> gradients, AdamFactors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const float g = gradients[i] + f.weights * weights[i];
    weights[i] = weights[i] - f.rate * f.moments.direction(g, m[i], v[i]);
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

DLFLOW_VECTOR_CLONES
uint32_t descend_decoupled(float* __restrict weights, float* __restrict m, float* __restrict v,
                           std::span<const float> gradients, AdamFactors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const float kept = f.weights * weights[i];
    weights[i] = kept - f.rate * f.moments.direction(gradients[i], m[i], v[i]);
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

/// Adam or AdamW.
class Adam final : public MomentsOptimizer {
 public:
  Adam(const OptimizerOptions& options, bool decoupled)
      : MomentsOptimizer(options), decoupled_(decoupled) {}

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    const auto kernel = decoupled_ ? descend_decoupled : descend_coupled;
    const double factor = decoupled_ ? 1 - rate(layer) * decay(layer) : decay(layer);
    return all_finite(kernel(e.weights.data(), e.state[0].data(), e.state[1].data(), gradients,
                             {moments(), float(rate(layer)), float(factor)}));
  }

 private:
  bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options) {
  return std::make_unique<Adam>(options, false);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options) {
  return std::make_unique<Adam>(options, true);
}

}  // namespace dlflow::runtime
