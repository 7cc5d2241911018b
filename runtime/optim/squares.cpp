#include "runtime/optim/squares.h"

#include <utility>

#include "base/finite.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

struct Factors {
  float keep, take, weight_decay, rate, epsilon;
};

DLFLOW_VECTOR_CLONES
uint32_t descend(float* __restrict weights, float* __restrict squares,
                 const float* __restrict gradients, size_t count, Factors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float g = gradients[i] + f.weight_decay * weights[i];
    const float s = f.keep * squares[i] + f.take * g * g;
    squares[i] = s;
    weights[i] = weights[i] - f.rate * g / (__builtin_sqrtf(s) + f.epsilon);
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

}  // namespace

SquaresOptimizer::SquaresOptimizer(const OptimizerOptions& options, std::string state_name,
                                   double keep, double take)
    : options_(options),
      state_name_(std::move(state_name)),
      keep_(float(keep)),
      take_(float(take)) {}

bool SquaresOptimizer::update(std::span<const float> gradients, const Elements& e,
                              const LayerTerms& layer) {
  const Factors factors{keep_, take_, float(layer.decay(options_.weight_decay)),
                        float(rate_ * layer.trust), float(options_.epsilon)};
  return all_finite(
      descend(e.weights.data(), e.state[0].data(), gradients.data(), e.weights.size(), factors));
}

}  // namespace dlflow::runtime
