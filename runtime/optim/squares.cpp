#include <string>
#include <utility>
#include <vector>

#include "base/finite.h"
#include "base/vector_clones.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

struct SquaresFactors {
  float keep, take, weight_decay, rate, epsilon;
};

DLFLOW_VECTOR_CLONES
uint32_t descend_by_root(float* __restrict weights, float* __restrict squares,
                         const float* __restrict gradients, size_t count, SquaresFactors f) {
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

/// The common part of RMSprop and Adagrad: a sum s of the squares of a weight's gradients, whose
/// root divides its step:
///   s = keep s + take g g;  w = w - rate g / (sqrt(s) + epsilon)
class SquaresOptimizer final : public RatedOptimizer {
 public:
  /// \param state_name  of s in checkpoints
  SquaresOptimizer(const OptimizerOptions& options, std::string state_name, double keep,
                   double take)
      : RatedOptimizer(options),
        state_name_(std::move(state_name)),
        keep_(float(keep)),
        take_(float(take)) {}

  std::vector<std::string> state_names() const override { return {state_name_}; }

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    const SquaresFactors factors{keep_, take_, float(decay(layer)), float(rate(layer)),
                                 float(options_.epsilon)};
    return all_finite(descend_by_root(e.weights.data(), e.state[0].data(), gradients.data(),
                                      e.weights.size(), factors));
  }

 private:
  std::string state_name_;
  float keep_, take_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options) {
  return std::make_unique<SquaresOptimizer>(options, ".v", options.alpha, 1 - options.alpha);
}

std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options) {
  return std::make_unique<SquaresOptimizer>(options, ".sum", 1, 1);
}

}  // namespace dlflow::runtime
