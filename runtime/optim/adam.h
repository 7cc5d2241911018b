#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace dlflow::runtime {

/// Adam: weight = weight - rate * direction (runtime/optim/moments.h), in which the weight decay is
/// an L2 penalty: a part of the gradient, g + weight_decay * weight.
/// Source: torch.optim.Adam; Kingma and Ba, arXiv 1412.6980.
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options);

}  // namespace dlflow::runtime
