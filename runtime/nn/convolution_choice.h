#pragma once

#include "runtime/nn/arithmetic.h"
#include "runtime/nn/model.h"

/// Which algorithm computes a convolution on CPUs.
namespace dlflow::runtime {

/// Whether this thread computes the convolution `layer` of maps of this shape by Winograd's
/// algorithm (runtime/nn/winograd_kernel.h) if `layer.algorithm` asks for it.
bool can_use_winograd(Compute compute, const Layer& layer, const TensorShape& input);

/// Whether it does: if the layer asks for it, or leaves the choice to the rules and `batch` maps
/// are enough to be faster than oneDNN.
bool uses_winograd(Compute compute, const Layer& layer, const TensorShape& input, int64_t batch);

}  // namespace dlflow::runtime
