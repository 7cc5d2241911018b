#include "runtime/optim/optimizers.h"
#include "runtime/optim/squares.h"

namespace dlflow::runtime {

std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options) {
  return std::make_unique<SquaresOptimizer>(options, ".sum", 1, 1);
}

}  // namespace dlflow::runtime
