#pragma once

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {

/// Winograd's algorithm (runtime/nn/winograd_kernel.h) computes the convolution `layer` of maps of
/// that shape, and is faster than oneDNN.
bool suits_winograd(const Builder& builder, const Layer& layer, const TensorShape& input);

/// The layer's operation with it.
Value& add_winograd(Assembly& assembly, const Place& place);

}  // namespace dlflow::runtime
