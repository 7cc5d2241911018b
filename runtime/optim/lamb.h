#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

namespace dlflow::runtime {

/// Layer-wise adaptive moments: Adam's direction (runtime/optim/moments.h) and the decay, as long
/// as the layer's weights,
///   r = direction + weight_decay * w;  w = w - rate * |w| / |r| * r.
/// The ratio is 1 for a layer of one dimension, which does not decay either, and where a norm is 0.
/// Source: You et al., arXiv 1904.00962, algorithm 2, with phi(z) = z.
std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options);

}  // namespace dlflow::runtime
