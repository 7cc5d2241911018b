#pragma once

#include "runtime/nn/operation.h"

namespace dlflow::runtime {

/// Whether oneDNN has optimised code for all three passes of the layer's convolution from maps of
/// format `x` to maps of format `y`. With few channels, in a group or a map, it only has it in
/// plain order. For some groups of one channel it only has a matrix product per channel, which is
/// slow.
bool has_fast_passes(const Builder& builder, const Layer& layer, const dnnl::memory::dims& weight,
                     const dnnl::memory::desc& x, const dnnl::memory::desc& y);

}  // namespace dlflow::runtime
