#pragma once

#include <dnnl.hpp>
#include <optional>

#include "runtime/nn/outer_products.h"

namespace dlflow::runtime {

/// Of the weight `parameter` (O,...) of a linear layer with the input `x` (B,...), both fp32, where
/// `weight` says how it lies in memory. Nothing if that is not a format that OuterProducts writes:
/// for each input, in the order in which they lie in a sample, a group of outputs.
std::optional<ProductShape> product_shape(size_t parameter, const dnnl::memory::desc& weight,
                                          const dnnl::memory::desc& x);

}  // namespace dlflow::runtime
