#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dlflow::cuda {

/// Maps (num_maps, height, width) and the maps pooled from them.
struct PooledMaps {
  int64_t num_maps = 0;
  int height = 0, width = 0, pooled_height = 0, pooled_width = 0;
  int kernel_height = 0, kernel_width = 0, stride = 1, padding = 0;
};

/// dx = the gradient of the maps, or dx += it, given the gradient `dy` of their windows' means, in
/// which padding counts as zeros. Adds in a fixed order. cuDNN's version takes more than twice as
/// long for the maps of resnet50 on an H200; for max pooling, cuDNN's gradient was faster than
/// ours.
void average_pool_gradient(const PooledMaps& maps, const float* dy, float* dx, bool adds,
                           cudaStream_t stream);

}  // namespace dlflow::cuda
