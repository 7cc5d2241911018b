#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace dlflow::runtime {

/// Layer-wise adaptive rate scaling: momentum SGD with a rate for each layer,
///   local = trust * |w| / (|g| + weight_decay * |w|);
///   v = momentum * v + rate * local * (g + weight_decay * w);  w = w - v.
/// local is 1 for a layer of one dimension, or whose weights or gradients are all zero.
/// Source: You, Gitman and Ginsburg, arXiv 1708.03888, algorithm 1.
std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options);

}  // namespace dlflow::runtime
