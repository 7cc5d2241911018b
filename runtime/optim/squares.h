#pragma once

#include <string>
#include <vector>

#include "runtime/optim/optimizer.h"

namespace dlflow::runtime {

/// The common part of RMSprop and Adagrad: a sum s of the squares of a weight's gradients, which
/// its step is divided by the root of:
///   s = keep s + take g g;  w = w - rate g / (sqrt(s) + epsilon)
class SquaresOptimizer final : public Optimizer {
 public:
  /// \param state_name  of s in checkpoints
  SquaresOptimizer(const OptimizerOptions& options, std::string state_name, double keep,
                   double take);

  std::vector<std::string> state_names() const override { return {state_name_}; }
  void begin_step(double learning_rate, uint64_t /*number*/) override { rate_ = learning_rate; }
  bool update(std::span<const float> gradients, const Elements& e,
              const LayerTerms& layer) override;

 private:
  OptimizerOptions options_;
  std::string state_name_;
  float keep_, take_;
  double rate_ = 0;
};

}  // namespace dlflow::runtime
