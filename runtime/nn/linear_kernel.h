#pragma once

#include "runtime/nn/outer_products.h"

namespace dlflow::runtime {

/// Whether linear_backward_data is faster than oneDNN, where `shape` says how the weight lies: for
/// leaves of 9 to 32 samples. Both wait for the weight most of the time.
bool has_linear_backward_data(const ProductShape& shape, int64_t samples);

/// The gradient of what a linear layer read, dx (samples, rows), from that of its result,
/// dy (samples, columns): dx = dy W. `weight` lies in memory as `shape` says. Lanes are samples, so
/// that each weight is read once per 16 of them. A sample's bits do not depend on the others.
/// For one thread.
void linear_backward_data(const ProductShape& shape, const float* weight, const float* dy,
                          int64_t samples, float* dx);

}  // namespace dlflow::runtime
