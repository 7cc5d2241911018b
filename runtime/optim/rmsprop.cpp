#include "runtime/optim/optimizers.h"
#include "runtime/optim/squares.h"

namespace dlflow::runtime {

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options) {
  return std::make_unique<SquaresOptimizer>(options, ".v", options.alpha, 1 - options.alpha);
}

}  // namespace dlflow::runtime
