#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/pooling_kernels.h"
#include "runtime/cuda/reduction.cuh"

namespace dlflow::cuda {
namespace {

/// The windows of a row or column that contain a place: [first, end).
struct Range {
  int first, end;
};
__device__ Range windows_of(int place, int kernel, int stride, int padding, int count) {
  const int last = (place + padding) / stride;
  const int beyond = place + padding - kernel;  // windows up to here end before the place
  return {beyond < 0 ? 0 : beyond / stride + 1, min(last + 1, count)};
}

/// A block computes parts of maps.
__global__ void average_kernel(PooledMaps m, const float* dy, float* dx, bool adds) {
  const uint32_t pixels = uint32_t(m.height) * uint32_t(m.width);
  const uint32_t place = blockIdx.x * kThreads + threadIdx.x;
  if (place >= pixels) return;
  const int row = int(place / uint32_t(m.width)), column = int(place) - row * m.width;
  const Range rows = windows_of(row, m.kernel_height, m.stride, m.padding, m.pooled_height);
  const Range columns = windows_of(column, m.kernel_width, m.stride, m.padding, m.pooled_width);
  const float share = 1.0f / float(m.kernel_height * m.kernel_width);
  for (int64_t map = blockIdx.y; map < m.num_maps; map += gridDim.y) {
    const float* const windows = dy + map * m.pooled_height * m.pooled_width;
    float sum = 0;
    for (int i = rows.first; i < rows.end; ++i) {
      for (int j = columns.first; j < columns.end; ++j) sum += windows[i * m.pooled_width + j];
    }
    float& to = dx[map * pixels + place];
    to = adds ? to + share * sum : share * sum;
  }
}

/// Blocks in x for the pixels of a map, in y for the maps.
dim3 grid_of(const PooledMaps& maps) {
  constexpr int64_t kMostMaps = 32768;
  const int64_t pixels = int64_t(maps.height) * maps.width;
  return dim3(unsigned((pixels + kThreads - 1) / kThreads),
              unsigned(maps.num_maps < kMostMaps ? maps.num_maps : kMostMaps));
}

}  // namespace

void average_pool_gradient(const PooledMaps& maps, const float* dy, float* dx, bool adds,
                           cudaStream_t stream) {
  average_kernel<<<grid_of(maps), kThreads, 0, stream>>>(maps, dy, dx, adds);
  check_launch("average_pool_gradient");
}

}  // namespace dlflow::cuda
