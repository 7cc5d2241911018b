#include "base/finite.h"
#include "runtime/optim/moments.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

struct LambFactors {
  Moments moments;
  float weight_decay;
};

DLFLOW_VECTOR_CLONES
void replace_by_directions(float* __restrict gradients, float* __restrict m, float* __restrict v,
                           std::span<const float> weights, LambFactors f) {
  for (size_t i = 0; i < weights.size(); ++i) {
    gradients[i] = f.moments.direction(gradients[i], m[i], v[i]) + f.weight_decay * weights[i];
  }
}

DLFLOW_VECTOR_CLONES
uint32_t descend(float* __restrict weights, const float* __restrict directions, size_t count,
                 float rate) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    weights[i] = weights[i] - rate * directions[i];
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

class Lamb final : public MomentsOptimizer {
 public:
  using MomentsOptimizer::MomentsOptimizer;

  bool layer_wise() const override { return true; }

  void direct(std::span<float> gradients, const Elements& e, const LayerTerms& layer) override {
    replace_by_directions(gradients.data(), e.state[0].data(), e.state[1].data(), e.weights,
                          {moments(), float(decay(layer))});
  }

  double trust_ratio(double of_weights, double of_directions,
                     const LayerTerms& /*layer*/) const override {
    return of_weights == 0 || of_directions == 0 ? 1 : of_weights / of_directions;
  }

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    return all_finite(
        descend(e.weights.data(), gradients.data(), e.weights.size(), float(rate(layer))));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options) {
  return std::make_unique<Lamb>(options);
}

}  // namespace dlflow::runtime
