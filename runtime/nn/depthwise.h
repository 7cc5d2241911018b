#pragma once

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {

/// Each channel of `input` has a kernel of its own.
bool is_depthwise(const Layer& layer, const TensorShape& input);

/// The layer's operation with kernels of our own, in fp32 on maps of any size.
Value& add_depthwise(Assembly& assembly, const Place& place);

}  // namespace dlflow::runtime
