#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace dlflow::runtime {

/// Stochastic gradient descent with momentum, in PyTorch's formula and order:
///   d = gradient + weight_decay * weight;  v = momentum * v + d;  weight = weight - rate * v,
/// or, with Nesterov's momentum, weight = weight - rate * (d + momentum * v).
/// Source: torch.optim.SGD with dampening 0; Sutskever et al., ICML 2013.
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options);

}  // namespace dlflow::runtime
