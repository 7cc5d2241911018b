#include <algorithm>
#include <cmath>

#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/reduction.cuh"

namespace dlflow::cuda {
namespace {

/// Number of blocks for `count` elements; beyond the limit, kernels loop with a stride.
int blocks_for(int64_t count) {
  constexpr int64_t kMostBlocks = 4096;
  return int(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
}

__device__ int64_t first_element() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t stride() { return int64_t(gridDim.x) * blockDim.x; }

/// For `count` groups, which must fit in Index.
template <int kWidth, typename Index>
__global__ void add_bias_kernel(Output output, const float* bias, Index count, Index groups_per_map,
                                Index channels) {
  for (Index i = Index(first_element()); i < count; i += Index(stride())) {
    const float more = bias ? bias[i / groups_per_map % channels] : 0;
    auto group = load<kWidth>(output.y + int64_t(i) * kWidth);
    for (float& value : group.values) {
      value += more;
      if (output.relu) value = relu(value);
    }
    store(output.y + int64_t(i) * kWidth, group);
  }
}

__global__ void add_kernel(const float* a, const float* b, Output output, int64_t count) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    const float sum = b ? a[i] + b[i] : a[i];
    output.y[i] = output.relu ? relu(sum) : sum;
  }
}

__global__ void mask_kernel(float* dy, const float* y, int64_t count) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    dy[i] = passes(dy[i], y[i]);
  }
}

__global__ void pass_on_kernel(const float* from, const float* y, GradientTo gradient,
                               int64_t count) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    const float passed = y ? passes(from[i], y[i]) : from[i];
    gradient.to[i] = gradient.adds ? gradient.to[i] + passed : passed;
  }
}

/// A warp visits a row at a time, a block several.
template <typename Visit>
__device__ void visit_rows(int64_t num_rows, int width, Visit visit) {
  const int64_t step = int64_t(gridDim.x) * blockDim.y;
  for (int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; row < num_rows; row += step) {
    for (int x = int(threadIdx.x); x < width; x += int(blockDim.x)) visit(row, x);
  }
}

__global__ void spread_kernel(const float* from, float* to, Spread s) {
  visit_rows(s.num_maps * s.height, s.width, [&](int64_t row, int x) {
    const int64_t map = row / s.height;
    const int y = int(row - map * s.height);
    const bool is_given = y % s.stride == 0 && x % s.stride == 0;
    const int64_t given = (map * s.rows_given() + y / s.stride) * s.columns_given() + x / s.stride;
    to[row * s.width + x] = is_given ? from[given] : 0;
  });
}

__global__ void add_spread_kernel(const float* from, float* to, Spread s) {
  visit_rows(s.num_maps * s.rows_given(), s.columns_given(), [&](int64_t row, int x) {
    const int64_t map = row / s.rows_given();
    const int64_t y = (row - map * s.rows_given()) * s.stride;
    to[(map * s.height + y) * s.width + x * s.stride] += from[row * s.columns_given() + x];
  });
}

/// One sum for each block of a channel, in channel_grid().
template <int kWidth>
__global__ void map_sums_kernel(Maps maps, float* dy, const float* y, double* of_blocks) {
  double sum = 0;
  visit_channel<kWidth>(maps, [&](int64_t at) {
    auto group = load<kWidth>(dy + at);
    if (y) {
      const auto result = load<kWidth>(y + at);
      for (int i = 0; i < kWidth; ++i) {
        group.values[i] = passes(group.values[i], result.values[i]);
      }
      store(dy + at, group);
    }
    for (const float value : group.values) sum += value;
  });
  const double all = block_sum(sum);
  if (threadIdx.x == 0) of_blocks[blockIdx.x * gridDim.y + blockIdx.y] = all;
}

/// One block of one warp per channel.
__global__ void channel_sums_kernel(const double* of_blocks, int num_blocks, float* sums) {
  const int lane = threadIdx.x;
  const double sum = warp_sum(lane < num_blocks ? of_blocks[blockIdx.x * num_blocks + lane] : 0.0);
  if (lane == 0) sums[blockIdx.x] = float(sum);
}

/// A block has kWarp columns times kThreads / kWarp groups of rows.
__global__ void column_sums_kernel(const float* values, float* sums, int64_t rows,
                                   int64_t columns) {
  constexpr int kGroups = kThreads / kWarp;
  const int lane = threadIdx.x % kWarp, group = threadIdx.x / kWarp;
  const int64_t column = int64_t(blockIdx.x) * kWarp + lane;
  double sum = 0;
  for (int64_t row = group; row < rows && column < columns; row += kGroups) {
    sum += values[row * columns + column];
  }
  __shared__ double parts[kGroups][kWarp];
  parts[group][lane] = sum;
  __syncthreads();
  if (group != 0 || column >= columns) return;
  double all = 0;
  for (int i = 0; i < kGroups; ++i) all += parts[i][lane];
  sums[column] = float(all);
}

/// Gives all threads of the warp the highest score of a row and its first position.
__device__ void highest(const float* row, int64_t classes, float& score, int& place) {
  const int lane = threadIdx.x % kWarp;
  score = -INFINITY;
  place = int(classes);
  for (int64_t c = lane; c < classes; c += kWarp) {
    if (row[c] > score || place == classes) {
      score = row[c];
      place = int(c);
    }
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFF, score, distance);
    const int there = __shfl_xor_sync(0xFFFFFFFF, place, distance);
    if (other > score || (other == score && there < place)) {
      score = other;
      place = there;
    }
  }
}

/// One warp per sample.
__global__ void softmax_kernel(Scores scores, const float* scale, float* gradient,
                               SampleLosses losses) {
  const int64_t sample = first_element() / kWarp, classes = scores.classes;
  if (sample >= scores.batch) return;
  const int lane = threadIdx.x % kWarp;
  const float* row = scores.scores + sample * classes;
  float most = 0;
  int place = 0;
  highest(row, classes, most, place);
  double sum = 0;
  for (int64_t c = lane; c < classes; c += kWarp) sum += exp(double(row[c]) - double(most));
  sum = warp_sum(sum);
  const int64_t label = scores.labels[sample];
  if (gradient) {
    for (int64_t c = lane; c < classes; c += kWarp) {
      const double probability = exp(double(row[c]) - double(most)) / sum;
      gradient[sample * classes + c] = float(double(*scale) * (probability - (c == label ? 1 : 0)));
    }
  }
  if (lane == 0) {
    losses.losses[sample] = log(sum) + double(most) - double(row[label]);
    losses.correct[sample] = place == label ? 1 : 0;
  }
}

/// Runs as one block. *share holds the scale; multiplies it by the loss.
__global__ void add_up_kernel(SampleLosses losses, int64_t batch, Totals* totals, float* share) {
  double loss = 0, hits = 0;
  for (int64_t i = threadIdx.x; i < batch; i += kThreads) {
    loss += losses.losses[i];
    hits += losses.correct[i];
  }
  const double all_loss = block_sum(loss), all_hits = block_sum(hits);
  if (threadIdx.x != 0) return;
  *totals = {all_loss, static_cast<long long>(all_hits)};
  if (share) *share *= float(all_loss);
}

__global__ void scale_kernel(float* values, int64_t count, const float* scale, float factor) {
  for (int64_t i = first_element(); i < count; i += stride()) values[i] *= *scale * factor;
}

/// No fused multiply-add, as on the CPU.
__global__ void sgd_kernel(TrainedWeights trained, DlflowGpuSgd options, float* broken) {
  for (int64_t i = first_element(); i < trained.count; i += stride()) {
    const float before = trained.weights[i];
    const float d = __fadd_rn(trained.gradients[i], __fmul_rn(options.weight_decay, before));
    const float v = __fadd_rn(__fmul_rn(options.momentum, trained.velocity[i]), d);
    const float w = __fsub_rn(before, __fmul_rn(options.learning_rate, v));
    trained.velocity[i] = v;
    trained.weights[i] = w;
    if (!isfinite(w)) *broken = 1;
  }
}

__global__ void move_statistics_kernel(float* running, const float* of_batch, int64_t count,
                                       float momentum) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    const float step = __fmul_rn(momentum, __fsub_rn(of_batch[i], running[i]));
    running[i] = __fadd_rn(running[i], step);
  }
}

}  // namespace

void add_bias(const Maps& maps, const float* bias, Output output, cudaStream_t stream) {
  with_width(maps, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const int64_t count = maps.batch * maps.channels * maps.pixels / kWidth;
    const auto launch = [&](auto index) {
      using Index = decltype(index);
      add_bias_kernel<kWidth, Index><<<blocks_for(count), kThreads, 0, stream>>>(
          output, bias, Index(count), Index(maps.pixels / kWidth), Index(maps.channels));
    };
    // 64-bit divisions are several times slower.
    count < (int64_t(1) << 30) ? launch(uint32_t()) : launch(uint64_t());
  });
  check_launch("add_bias");
}

void add(const float* a, const float* b, Output output, int64_t count, cudaStream_t stream) {
  add_kernel<<<blocks_for(count), kThreads, 0, stream>>>(a, b, output, count);
  check_launch("add");
}

void mask_gradient(float* dy, const float* y, int64_t count, cudaStream_t stream) {
  mask_kernel<<<blocks_for(count), kThreads, 0, stream>>>(dy, y, count);
  check_launch("mask_gradient");
}

void pass_on(const float* from, const float* y, GradientTo gradient, int64_t count,
             cudaStream_t stream) {
  pass_on_kernel<<<blocks_for(count), kThreads, 0, stream>>>(from, y, gradient, count);
  check_launch("pass_on");
}

void spread(const float* from, float* to, const Spread& maps, cudaStream_t stream) {
  const dim3 block(kWarp, kThreads / kWarp);
  const int64_t rows = maps.num_maps * (maps.adds ? maps.rows_given() : maps.height);
  const auto kernel = maps.adds ? add_spread_kernel : spread_kernel;
  kernel<<<blocks_for(rows * kWarp), block, 0, stream>>>(from, to, maps);
  check_launch("spread");
}

size_t bias_gradient_scratch(const Maps& maps) {
  return size_t(blocks_per_channel(maps)) * size_t(maps.channels) * sizeof(double);
}

void bias_gradient(const Maps& maps, float* dy, const float* y, float* sums, ScratchStream on) {
  if (maps.pixels == 1) {
    if (y != nullptr) mask_gradient(dy, y, maps.batch * maps.channels, on.stream);
    return column_sums(dy, sums, maps.batch, maps.channels, on.stream);
  }
  double* const of_blocks = static_cast<double*>(on.scratch);
  with_width(maps, [&](auto width) {
    map_sums_kernel<decltype(width)::value>
        <<<channel_grid(maps), kThreads, 0, on.stream>>>(maps, dy, y, of_blocks);
  });
  channel_sums_kernel<<<int(maps.channels), kWarp, 0, on.stream>>>(of_blocks,
                                                                   blocks_per_channel(maps), sums);
  check_launch("bias_gradient");
}

void column_sums(const float* values, float* sums, int64_t rows, int64_t columns,
                 cudaStream_t stream) {
  const int blocks = int((columns + kWarp - 1) / kWarp);
  column_sums_kernel<<<blocks, kThreads, 0, stream>>>(values, sums, rows, columns);
  check_launch("column_sums");
}

void softmax_cross_entropy(const Scores& scores, const float* scale, float* gradient,
                           SampleLosses losses, cudaStream_t stream) {
  const int64_t threads = scores.batch * kWarp;
  const int blocks = int((threads + kThreads - 1) / kThreads);
  softmax_kernel<<<blocks, kThreads, 0, stream>>>(scores, scale, gradient, losses);
  check_launch("softmax_cross_entropy");
}

void add_up(SampleLosses losses, int64_t batch, Totals* totals, float* share, cudaStream_t stream) {
  add_up_kernel<<<1, kThreads, 0, stream>>>(losses, batch, totals, share);
  check_launch("add_up");
}

void scale(float* values, int64_t count, const float* scale, float factor, cudaStream_t stream) {
  if (count == 0) return;
  scale_kernel<<<blocks_for(count), kThreads, 0, stream>>>(values, count, scale, factor);
  check_launch("scale");
}

void sgd(const TrainedWeights& trained, const DlflowGpuSgd& options, float* broken,
         cudaStream_t stream) {
  if (trained.count == 0) return;
  sgd_kernel<<<blocks_for(trained.count), kThreads, 0, stream>>>(trained, options, broken);
  check_launch("sgd");
}

void move_statistics(float* running, const float* of_batch, int64_t count, float momentum,
                     cudaStream_t stream) {
  if (count == 0) return;
  move_statistics_kernel<<<blocks_for(count), kThreads, 0, stream>>>(running, of_batch, count,
                                                                     momentum);
  check_launch("move_statistics");
}

}  // namespace dlflow::cuda
