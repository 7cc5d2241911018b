#pragma once

#include "runtime/nn/assembly.h"

/// fp32 convolutions with our own kernels.
namespace dlflow::runtime {

/// Adds the layer's operation with Winograd's algorithm.
Value& add_winograd(Assembly& assembly, const LayerNode& node);

/// Whether each channel of `input` has its own kernel.
bool is_depthwise(const Layer& layer, const TensorShape& input);

/// Adds the layer's operation with our own kernels, in fp32 on maps of any size.
Value& add_depthwise(Assembly& assembly, const LayerNode& node);

}  // namespace dlflow::runtime
