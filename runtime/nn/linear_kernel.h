#pragma once

#include "runtime/nn/outer_products.h"

namespace dlflow::runtime {

/// Whether linear_backward_data is faster than oneDNN for a weight laid out as `shape`: for leaves
/// of 9 to 32 samples. Both mostly wait for the weight to arrive from memory.
bool has_linear_backward_data(const ProductShape& shape, int64_t samples);

/// Computes a linear layer's input gradient dx (samples, rows) from its output gradient dy
/// (samples, columns): dx = dy W. `weight` lies in memory as `shape` describes. Lanes are samples,
/// so each weight is read once per 16 of them. A sample's bits do not depend on the others.
/// Single-threaded.
void linear_backward_data(const ProductShape& shape, const float* weight, const float* dy,
                          int64_t samples, float* dx);

}  // namespace dlflow::runtime
