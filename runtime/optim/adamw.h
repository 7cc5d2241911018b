#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace dlflow::runtime {

/// Adam with decoupled weight decay: weight = (1 - rate * weight_decay) * weight - rate * direction
/// (runtime/optim/moments.h).
/// Source: torch.optim.AdamW; Loshchilov and Hutter, arXiv 1711.05101, algorithm 2.
std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options);

}  // namespace dlflow::runtime
