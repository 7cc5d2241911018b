#include <cuda_pipeline.h>

#include <algorithm>
#include <climits>

#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/reduction.cuh"
#include "runtime/cuda/weight_gradient.h"

/// A matrix product: rows are output channels, columns are weights (an input channel and a place in
/// the kernel), and sums go over all positions of all samples. A block computes a tile for its part
/// of the positions; while it multiplies some of them, the next are copied to its shared memory.
namespace dlflow::cuda {
namespace {

constexpr int kColumns = 128;  // of a tile
constexpr int kDepth = kWarp;  // positions at a time, one for each lane
constexpr int kStages = 2;     // one is copied while the other is being multiplied
constexpr int kWarps = kThreads / kWarp;
constexpr int kColumnsPerThread = kColumns / kWarp;

int round_up(int64_t a, int64_t b) { return int((a + b - 1) / b); }
int num_columns(const ConvolutionShape& s) {
  return s.input_channels * s.kernel_height * s.kernel_width;
}
int num_positions(const ConvolutionShape& s) { return s.batch * s.output_height * s.output_width; }
int num_tiles(const ConvolutionShape& s, int rows) {
  return round_up(s.output_channels, rows) * round_up(num_columns(s), kColumns);
}

/// Adjacent rows of a tile per thread, equal within a warp. More rows mean fewer loads per product,
/// but no tile should have rows without a channel.
int rows_per_thread(const ConvolutionShape& s) {
  return s.output_channels <= 4 * kWarps ? 4 : s.output_channels <= 8 * kWarps ? 8 : 16;
}

/// Enough parts to fill a device, each with several steps.
int num_parts(const ConvolutionShape& s) {
  constexpr int kBlocks = 512, kMost = 128, kLeastPositions = 4 * kDepth;
  const int enough = round_up(kBlocks, num_tiles(s, rows_per_thread(s) * kWarps));
  return std::clamp(std::min(enough, num_positions(s) / kLeastPositions), 1, kMost);
}

/// The input that a column reads, relative to the kernel's first weight.
struct Column {
  int offset;
  int row, column;  // in the kernel
};

__device__ Column column_of(const ConvolutionShape& s, int index, int count) {
  if (index >= count) return {0, INT_MIN / 2, 0};  // outside any map
  const int size = s.kernel_height * s.kernel_width;
  const int channel = index / size, place = index % size;
  const int row = place / s.kernel_width, column = place % s.kernel_width;
  return {(channel * s.height + row) * s.width + column, row, column};
}

/// The shared memory of a block; the numbers of a position are adjacent.
template <int kRows>
struct SharedTiles {
  alignas(16) float a[kStages][kDepth][kRows + 4];  // of dy; read as float4s
  float b[kStages][kDepth][kColumns + 1];           // of x; padded to avoid bank conflicts
  Column columns[kColumns];
};

/// The factors of the product: a convolution's input and the gradient of its output.
struct Factors {
  ConvolutionShape shape;
  const float *x, *dy;
};

/// The tile of a block, and its share [begin, end) of all positions.
struct Tile {
  int first_row, first_column, begin, end;
};

__device__ void copy_or_zero(float* to, const float* from, bool copies) {
  __pipeline_memcpy_async(to, from, sizeof(float), copies ? 0 : sizeof(float));
}

/// Begins to copy kDepth positions from `base` on, one per lane.
template <int kRows>
__device__ void copy_positions(const Factors& factors, const Tile& tile, int base, int stage,
                               SharedTiles<kRows>& tiles) {
  const ConvolutionShape& s = factors.shape;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int map = s.output_height * s.output_width;
  const bool there = base + lane < tile.end;
  const int position = there ? base + lane : 0;
  const int sample = position / map, place = position % map;
  const int top = place / s.output_width * s.stride - s.padding;
  const int left = place % s.output_width * s.stride - s.padding;
  const float* const maps = factors.dy + int64_t(sample) * s.output_channels * map + place;
  const float* const pixels = factors.x + int64_t(sample) * s.input_channels * s.height * s.width +
                              (int64_t(top) * s.width + left);
#pragma unroll
  for (int i = warp; i < kRows; i += kWarps) {
    const int row = tile.first_row + i;
    const bool inside = there && row < s.output_channels;
    copy_or_zero(&tiles.a[stage][lane][i], inside ? maps + int64_t(row) * map : factors.dy, inside);
  }
#pragma unroll
  for (int i = warp; i < kColumns; i += kWarps) {
    const Column column = tiles.columns[i];
    const int y = top + column.row, z = left + column.column;
    const bool inside = there && y >= 0 && y < s.height && z >= 0 && z < s.width;
    copy_or_zero(&tiles.b[stage][lane][i], inside ? pixels + column.offset : factors.x, inside);
  }
  __pipeline_commit();
}

template <int kRowsPerThread>
__global__ void __launch_bounds__(kThreads)
    weight_gradient_parts(Factors factors, int num_columns, int num_positions,
                          int positions_per_part, float* parts) {
  constexpr int kRows = kRowsPerThread * kWarps;
  extern __shared__ float4 shared[];
  auto& tiles = *reinterpret_cast<SharedTiles<kRows>*>(shared);
  const ConvolutionShape& s = factors.shape;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int begin = blockIdx.z * positions_per_part;
  const Tile tile = {int(blockIdx.y) * kRows, int(blockIdx.x) * kColumns, begin,
                     min(begin + positions_per_part, num_positions)};
  for (int i = threadIdx.x; i < kColumns; i += kThreads) {
    tiles.columns[i] = column_of(s, tile.first_column + i, num_columns);
  }
  __syncthreads();
  float sums[kRowsPerThread][kColumnsPerThread] = {};
  if (begin < tile.end) copy_positions(factors, tile, begin, 0, tiles);
  int stage = 0;
  for (int base = begin; base < tile.end; base += kDepth) {
    if (base + kDepth < tile.end) {
      copy_positions(factors, tile, base + kDepth, 1 - stage, tiles);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();  // the copies of all threads have arrived
#pragma unroll 4
    for (int k = 0; k < kDepth; ++k) {
      float rows[kRowsPerThread];
      for (int i = 0; i < kRowsPerThread; i += 4) {
        const auto four = load<4>(&tiles.a[stage][k][warp * kRowsPerThread + i]);
        for (int j = 0; j < 4; ++j) rows[i + j] = four.values[j];
      }
      for (int j = 0; j < kColumnsPerThread; ++j) {
        const float value = tiles.b[stage][k][lane + j * kWarp];
        for (int i = 0; i < kRowsPerThread; ++i) sums[i][j] += rows[i] * value;
      }
    }
    __syncthreads();  // all threads have finished reading
    stage = 1 - stage;
  }
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int row = tile.first_row + warp * kRowsPerThread + i;
    for (int j = 0; j < kColumnsPerThread; ++j) {
      const int column = tile.first_column + lane + j * kWarp;
      if (row >= s.output_channels || column >= num_columns) continue;
      parts[(int64_t(blockIdx.z) * s.output_channels + row) * num_columns + column] = sums[i][j];
    }
  }
}

/// Calls `launch` with the number of rows per thread.
template <typename Launch>
void with_rows(const ConvolutionShape& s, Launch launch) {
  switch (rows_per_thread(s)) {
    case 4:
      return launch(std::integral_constant<int, 4>());
    case 8:
      return launch(std::integral_constant<int, 8>());
    default:
      return launch(std::integral_constant<int, 16>());
  }
}

}  // namespace

bool splits_weight_gradient(const ConvolutionShape& shape) {
  constexpr int kFilled = 256, kRows = 32;  // tiles of cuDNN that fill a device
  return num_tiles(shape, kRows) < kFilled;
}

size_t weight_gradient_scratch(const ConvolutionShape& shape) {
  return size_t(num_parts(shape)) * size_t(shape.output_channels) * size_t(num_columns(shape)) *
         sizeof(float);
}

void weight_gradient(const ConvolutionShape& shape, const float* x, const float* dy,
                     float* gradient, ScratchStream on) {
  float* const parts = static_cast<float*>(on.scratch);
  const int columns = num_columns(shape), positions = num_positions(shape);
  const int per_part = round_up(round_up(positions, num_parts(shape)), kDepth) * kDepth;
  with_rows(shape, [&](auto rows) {
    constexpr int kRows = decltype(rows)::value * kWarps;
    constexpr auto kKernel = weight_gradient_parts<decltype(rows)::value>;
    const dim3 grid(unsigned(round_up(columns, kColumns)),
                    unsigned(round_up(shape.output_channels, kRows)), unsigned(num_parts(shape)));
    constexpr int kBytes = int(sizeof(SharedTiles<kRows>));  // above the default limit of a block
    check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
          "cudaFuncSetAttribute");
    kKernel<<<grid, kThreads, kBytes, on.stream>>>(Factors{shape, x, dy}, columns, positions,
                                                   per_part, parts);
  });
  check_launch("weight_gradient");
  column_sums(parts, gradient, num_parts(shape), int64_t(shape.output_channels) * columns,
              on.stream);
}

}  // namespace dlflow::cuda
