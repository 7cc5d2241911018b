#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/vector_clones.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {

/// The common part of Adam, AdamW and Lamb: running means m of the gradients and v of their
/// squares, and the resulting direction, corrected for the means' start at zero:
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g;
///   direction = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)   in step t
/// Source: Kingma and Ba, arXiv 1412.6980, algorithm 1.
struct Moments {
  Moments(const OptimizerOptions& options, uint64_t step)
      : keep_m(float(options.beta1)),
        take_m(float(1 - options.beta1)),
        keep_v(float(options.beta2)),
        take_v(float(1 - options.beta2)),
        scale_m(float(1 / (1 - std::pow(options.beta1, double(step))))),
        scale_root(float(1 / std::sqrt(1 - std::pow(options.beta2, double(step))))),
        epsilon(float(options.epsilon)) {}

  /// Updates `m` and `v` with gradient `g`, and returns the direction.
  DLFLOW_INLINE float direction(float g, float& m, float& v) const {
    m = keep_m * m + take_m * g;
    v = keep_v * v + take_v * g * g;
    return scale_m * m / (__builtin_sqrtf(v) * scale_root + epsilon);
  }

  float keep_m, take_m, keep_v, take_v, scale_m, scale_root, epsilon;
};

/// An optimizer that keeps these two means for each weight.
class MomentsOptimizer : public RatedOptimizer {
 public:
  explicit MomentsOptimizer(const OptimizerOptions& options)
      : RatedOptimizer(options), moments_(options, 1) {}

  std::vector<std::string> state_names() const override { return {".m", ".v"}; }

  void begin_step(double learning_rate, uint64_t number) override {
    RatedOptimizer::begin_step(learning_rate, number);
    moments_ = Moments(options_, number);
  }

 protected:
  const Moments& moments() const { return moments_; }  ///< of the current step

 private:
  Moments moments_;
};

}  // namespace dlflow::runtime
