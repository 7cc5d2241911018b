#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/maps.h"

/// Sums in a fixed order, and the distribution of a channel's numbers among blocks.
namespace dlflow::cuda {

constexpr int kThreads = 256;  // of every block
constexpr int kWarp = 32;

__device__ inline double warp_sum(double value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFF, value, distance);  // the same sum on every lane
  }
  return value;
}

/// The sum over the kThreads threads of the block; all of them get it.
__device__ inline double block_sum(double value) {
  __shared__ double parts[kThreads / kWarp];
  const double of_warp = warp_sum(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = of_warp;
  __syncthreads();
  double sum = 0;
  for (const double part : parts) sum += part;
  __syncthreads();  // the next sum overwrites parts
  return sum;
}

__host__ __device__ inline int64_t per_channel(const Maps& maps) {
  return maps.batch * maps.pixels;
}

/// Blocks that share a channel: enough over all channels to fill a device, none with too little
/// work. At most kWarp, so that one warp can add up their results.
inline int blocks_per_channel(const Maps& maps) {
  constexpr int64_t kBlocks = 1024, kLeast = 4 * kThreads;
  int64_t blocks = (kBlocks + maps.channels - 1) / maps.channels;
  if (blocks > per_channel(maps) / kLeast) blocks = per_channel(maps) / kLeast;
  return int(blocks < 1 ? 1 : blocks > kWarp ? kWarp : blocks);
}

/// In a grid of (channels, blocks_per_channel): visits the positions of this thread's groups of
/// kWidth adjacent numbers. `pixels` must be a multiple of kWidth.
template <int kWidth, typename Visit>
__device__ void visit_channel(const Maps& maps, Visit visit) {
  const uint32_t groups = uint32_t(maps.pixels / kWidth);  // per map
  const uint32_t all = uint32_t(maps.batch) * groups;
  const uint32_t each = (all + gridDim.y - 1) / gridDim.y;
  const uint32_t begin = blockIdx.y * each;
  const uint32_t end = min(begin + each, all);
  for (uint32_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const uint32_t sample = i / groups;
    const int64_t map = int64_t(sample) * maps.channels + blockIdx.x;
    visit(map * maps.pixels + int64_t(i - sample * groups) * kWidth);
  }
}

inline dim3 channel_grid(const Maps& maps) {
  return dim3(unsigned(maps.channels), unsigned(blocks_per_channel(maps)));
}

/// Calls `launch` with the largest group width that divides the maps.
template <typename Launch>
void with_width(const Maps& maps, Launch launch) {
  if (maps.pixels % 4 == 0) {
    launch(std::integral_constant<int, 4>());
  } else {
    launch(std::integral_constant<int, 1>());
  }
}

/// kWidth adjacent floats, loaded and stored at once.
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Group {
  float values[kWidth];
};
template <int kWidth>
__device__ Group<kWidth> load(const float* from) {
  return *reinterpret_cast<const Group<kWidth>*>(from);
}
template <int kWidth>
__device__ void store(float* to, const Group<kWidth>& group) {
  *reinterpret_cast<Group<kWidth>*>(to) = group;
}

/// The part of a gradient that passes a ReLU with result `y`.
__device__ inline float passes(float gradient, float y) { return y > 0 ? gradient : 0; }

__device__ inline float relu(float x) { return x < 0 ? 0 : x; }  // NaN stays

}  // namespace dlflow::cuda
