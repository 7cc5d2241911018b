#include <algorithm>
#include <climits>

#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/reduction.cuh"
#include "runtime/cuda/weight_gradient.h"

/// A matrix product: rows are output channels, columns are weights of one (input channel and place
/// in the kernel), and sums go over all positions of all samples. A block computes a tile for its
/// part of the positions.
namespace dlflow::cuda {
namespace {

constexpr int kRows = 32, kColumns = 128;  // of a tile
constexpr int kDepth = kWarp;              // positions at a time, one for each lane
constexpr int kWarps = kThreads / kWarp;
constexpr int kRowsPerThread = kRows / kWarps;  // adjacent ones, the same for all of a warp
constexpr int kColumnsPerThread = kColumns / kWarp;
static_assert(kRowsPerThread == 4, "they are read as one float4");

int round_up(int64_t a, int64_t b) { return int((a + b - 1) / b); }
int num_columns(const ConvolutionShape& s) {
  return s.input_channels * s.kernel_height * s.kernel_width;
}
int num_positions(const ConvolutionShape& s) { return s.batch * s.output_height * s.output_width; }
int num_tiles(const ConvolutionShape& s) {
  return round_up(s.output_channels, kRows) * round_up(num_columns(s), kColumns);
}

/// Enough for a device, each with some steps to do.
int num_parts(const ConvolutionShape& s) {
  constexpr int kBlocks = 512, kMost = 64, kLeastPositions = 4 * kDepth;
  const int enough = round_up(kBlocks, num_tiles(s));
  return std::clamp(std::min(enough, num_positions(s) / kLeastPositions), 1, kMost);
}

/// What a column reads, from the place of the kernel's first weight on.
struct Column {
  int offset;
  int row, column;  // in the kernel
};

__device__ Column column_of(const ConvolutionShape& s, int index, int count) {
  if (index >= count) return {0, INT_MIN / 2, 0};  // outside of every map
  const int size = s.kernel_height * s.kernel_width;
  const int channel = index / size, place = index % size;
  const int row = place / s.kernel_width, column = place % s.kernel_width;
  return {(channel * s.height + row) * s.width + column, row, column};
}

__global__ void __launch_bounds__(kThreads)
    weight_gradient_parts(ConvolutionShape s, const float* x, const float* dy, int num_columns,
                          int num_positions, int positions_per_part, float* parts) {
  __shared__ Column columns[kColumns];
  __shared__ alignas(16) float a[kDepth][kRows + 4];  // of dy; rows begin at float4s
  __shared__ float b[kDepth][kColumns + 1];           // of x; lanes write to banks of their own
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_column = blockIdx.x * kColumns, first_row = blockIdx.y * kRows;
  for (int i = threadIdx.x; i < kColumns; i += kThreads) {
    columns[i] = column_of(s, first_column + i, num_columns);
  }
  const int map = s.output_height * s.output_width;
  const int begin = blockIdx.z * positions_per_part;
  const int end = min(begin + positions_per_part, num_positions);
  float sums[kRowsPerThread][kColumnsPerThread] = {};
  for (int base = begin; base < end; base += kDepth) {
    const bool there = base + lane < end;
    const int position = there ? base + lane : 0;
    const int sample = position / map, place = position % map;
    const int top = place / s.output_width * s.stride - s.padding;
    const int left = place % s.output_width * s.stride - s.padding;
    const float* const maps = dy + int64_t(sample) * s.output_channels * map + place;
    const float* const pixels = x + int64_t(sample) * s.input_channels * s.height * s.width +
                                (int64_t(top) * s.width + left);
    __syncthreads();  // `columns` are there; nobody reads what was there before
    for (int i = warp; i < kRows; i += kWarps) {
      const int row = first_row + i;
      a[lane][i] = there && row < s.output_channels ? maps[int64_t(row) * map] : 0;
    }
    for (int i = warp; i < kColumns; i += kWarps) {
      const Column column = columns[i];
      const int y = top + column.row, z = left + column.column;
      const bool inside = there && y >= 0 && y < s.height && z >= 0 && z < s.width;
      b[lane][i] = inside ? pixels[column.offset] : 0;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      const auto rows = load<kRowsPerThread>(&a[k][warp * kRowsPerThread]);
      for (int j = 0; j < kColumnsPerThread; ++j) {
        const float value = b[k][lane + j * kWarp];
        for (int i = 0; i < kRowsPerThread; ++i) sums[i][j] += rows.values[i] * value;
      }
    }
  }
  for (int i = 0; i < kRowsPerThread; ++i) {
    const int row = first_row + warp * kRowsPerThread + i;
    for (int j = 0; j < kColumnsPerThread; ++j) {
      const int column = first_column + lane + j * kWarp;
      if (row >= s.output_channels || column >= num_columns) continue;
      parts[(int64_t(blockIdx.z) * s.output_channels + row) * num_columns + column] = sums[i][j];
    }
  }
}

}  // namespace

bool splits_weight_gradient(const ConvolutionShape& shape) {
  constexpr int kFilled = 256;  // tiles that fill a device without being shared
  return num_tiles(shape) < kFilled;
}

size_t weight_gradient_scratch(const ConvolutionShape& shape) {
  return size_t(num_parts(shape)) * size_t(shape.output_channels) * size_t(num_columns(shape)) *
         sizeof(float);
}

void weight_gradient(const ConvolutionShape& shape, const float* x, const float* dy,
                     float* gradient, void* scratch, cudaStream_t stream) {
  float* const parts = static_cast<float*>(scratch);
  const int columns = num_columns(shape), positions = num_positions(shape);
  const int per_part = round_up(round_up(positions, num_parts(shape)), kDepth) * kDepth;
  const dim3 grid(unsigned(round_up(columns, kColumns)),
                  unsigned(round_up(shape.output_channels, kRows)), unsigned(num_parts(shape)));
  weight_gradient_parts<<<grid, kThreads, 0, stream>>>(shape, x, dy, columns, positions, per_part,
                                                       parts);
  check_launch("weight_gradient");
  column_sums(parts, gradient, num_parts(shape), int64_t(shape.output_channels) * columns, stream);
}

}  // namespace dlflow::cuda
