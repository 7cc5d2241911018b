#pragma once

#include "runtime/nn/assembly.h"

/// Convolutions in fp32 that kernels of our own compute.
namespace dlflow::runtime {

/// Winograd's algorithm (runtime/nn/winograd_kernel.h) computes the convolution `layer` of maps of
/// that shape, and is faster than oneDNN.
bool suits_winograd(const Builder& builder, const Layer& layer, const TensorShape& input);

/// The layer's operation with it.
Value& add_winograd(Assembly& assembly, const Place& place);

/// Each channel of `input` has a kernel of its own.
bool is_depthwise(const Layer& layer, const TensorShape& input);

/// The layer's operation with kernels of our own, in fp32 on maps of any size.
Value& add_depthwise(Assembly& assembly, const Place& place);

}  // namespace dlflow::runtime
