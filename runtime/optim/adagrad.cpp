#include "base/finite.h"
#include "base/vector_clones.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {
namespace {

struct Factors {
  float weight_decay, rate, epsilon;
};

DLFLOW_VECTOR_CLONES
uint32_t descend(float* __restrict weights, float* __restrict squares,
                 const float* __restrict gradients, size_t count, Factors f) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float g = gradients[i] + f.weight_decay * weights[i];
    const float s = squares[i] + g * g;
    squares[i] = s;
    weights[i] = weights[i] - f.rate * g / (__builtin_sqrtf(s) + f.epsilon);
    greatest = greatest_bits(greatest, weights[i]);
  }
  return greatest;
}

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const OptimizerOptions& options) : options_(options) {}

  std::vector<std::string> state_names() const override { return {".sum"}; }

  void begin_step(double learning_rate, uint64_t /*number*/) override { rate_ = learning_rate; }

  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override {
    const Factors factors{float(layer.decay(options_.weight_decay)), float(rate_ * layer.trust),
                          float(options_.epsilon)};
    return all_finite(
        descend(e.weights.data(), e.state[0].data(), gradients.data(), e.weights.size(), factors));
  }

 private:
  OptimizerOptions options_;
  double rate_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options) {
  return std::make_unique<Adagrad>(options);
}

}  // namespace dlflow::runtime
