#pragma once

#include "runtime/nn/operation.h"

namespace dlflow::runtime {

/// oneDNN has optimised code for the three passes of the convolution with the layer's window from
/// maps of format `x` to maps of format `y`. For groups of few channels, and for maps of few
/// channels, it has it in plain order alone; for some groups of one channel, none but a product of
/// matrices per channel, which is slow.
bool has_fast_passes(const Builder& builder, const Layer& layer, const dnnl::memory::dims& weight,
                     const dnnl::memory::desc& x, const dnnl::memory::desc& y);

}  // namespace dlflow::runtime
