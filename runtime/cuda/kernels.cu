#include <algorithm>
#include <cmath>

#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/kernels.h"

namespace dlflow::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

/// Blocks for `count` elements; a kernel goes through what is left with a stride.
int blocks_for(int64_t count) {
  constexpr int64_t kMostBlocks = 4096;
  return int(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
}

__device__ int64_t first_element() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t stride() { return int64_t(gridDim.x) * blockDim.x; }

__device__ float relu(float x) { return x < 0 ? 0 : x; }

/// The sum over the block's threads (kThreads of them) in a fixed order; on thread 0.
template <typename T>
__device__ T block_sum(T value) {
  __shared__ T parts[kThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    if (int(threadIdx.x) < distance) parts[threadIdx.x] += parts[threadIdx.x + distance];
    __syncthreads();
  }
  const T sum = parts[0];
  __syncthreads();  // the next sum writes there
  return sum;
}

__global__ void add_bias_kernel(float* y, const float* bias, int64_t count, int64_t channels,
                                int64_t pixels, bool with_relu) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    const float sum = bias ? y[i] + bias[i / pixels % channels] : y[i];
    y[i] = with_relu ? relu(sum) : sum;
  }
}

__global__ void add_kernel(const float* a, const float* b, float* y, int64_t count,
                           bool with_relu) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    const float sum = b ? a[i] + b[i] : a[i];
    y[i] = with_relu ? relu(sum) : sum;
  }
}

__global__ void mask_kernel(float* dy, const float* y, int64_t count) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    if (!(y[i] > 0)) dy[i] = 0;
  }
}

__global__ void pass_on_kernel(const float* from, float* to, int64_t count, bool adds) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    to[i] = adds ? to[i] + from[i] : from[i];
  }
}

/// A block per channel.
__global__ void channel_sums_kernel(const float* dy, float* sums, int64_t batch, int64_t channels,
                                    int64_t pixels) {
  const int64_t channel = blockIdx.x;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < batch * pixels; i += kThreads) {
    sum += dy[(i / pixels * channels + channel) * pixels + i % pixels];
  }
  const double all = block_sum(sum);
  if (threadIdx.x == 0) sums[channel] = float(all);
}

/// The highest score of a row and where it first is, known to all threads of the warp.
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

/// A warp per sample.
__global__ void softmax_kernel(const float* scores, const uint32_t* labels, int64_t batch,
                               int64_t classes, float scale, float* gradient, double* losses,
                               int* correct) {
  const int64_t sample = first_element() / kWarp;
  if (sample >= batch) return;
  const int lane = threadIdx.x % kWarp;
  const float* row = scores + sample * classes;
  float most = 0;
  int place = 0;
  highest(row, classes, most, place);
  double sum = 0;
  for (int64_t c = lane; c < classes; c += kWarp) sum += exp(double(row[c]) - double(most));
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, distance);  // the same sum on every lane
  }
  const int64_t label = labels[sample];
  if (gradient) {
    for (int64_t c = lane; c < classes; c += kWarp) {
      const double probability = exp(double(row[c]) - double(most)) / sum;
      gradient[sample * classes + c] = float(double(scale) * (probability - (c == label ? 1 : 0)));
    }
  }
  if (lane == 0) {
    losses[sample] = log(sum) + double(most) - double(row[label]);
    correct[sample] = place == label ? 1 : 0;
  }
}

/// One block.
__global__ void add_up_kernel(const double* losses, const int* correct, int64_t batch, float scale,
                              Totals* totals, float* share) {
  double loss = 0;
  long long hits = 0;
  for (int64_t i = threadIdx.x; i < batch; i += kThreads) {
    loss += losses[i];
    hits += correct[i];
  }
  const double all_loss = block_sum(loss);
  const long long all_hits = block_sum(hits);
  if (threadIdx.x != 0) return;
  *totals = {all_loss, all_hits};
  if (share) *share = float(all_loss) * scale;
}

__global__ void scale_kernel(float* values, int64_t count, float factor) {
  for (int64_t i = first_element(); i < count; i += stride()) values[i] *= factor;
}

/// No fused multiply-add, as on the CPU.
__global__ void sgd_kernel(float* weights, float* velocity, const float* gradients, int64_t count,
                           float learning_rate, float momentum, float weight_decay, float* broken) {
  for (int64_t i = first_element(); i < count; i += stride()) {
    const float d = __fadd_rn(gradients[i], __fmul_rn(weight_decay, weights[i]));
    const float v = __fadd_rn(__fmul_rn(momentum, velocity[i]), d);
    const float w = __fsub_rn(weights[i], __fmul_rn(learning_rate, v));
    velocity[i] = v;
    weights[i] = w;
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

void add_bias(float* y, const float* bias, int64_t batch, int64_t channels, int64_t pixels,
              bool with_relu, cudaStream_t stream) {
  const int64_t count = batch * channels * pixels;
  add_bias_kernel<<<blocks_for(count), kThreads, 0, stream>>>(y, bias, count, channels, pixels,
                                                              with_relu);
  check_launch("add_bias");
}

void add(const float* a, const float* b, float* y, int64_t count, bool with_relu,
         cudaStream_t stream) {
  add_kernel<<<blocks_for(count), kThreads, 0, stream>>>(a, b, y, count, with_relu);
  check_launch("add");
}

void mask_gradient(float* dy, const float* y, int64_t count, cudaStream_t stream) {
  mask_kernel<<<blocks_for(count), kThreads, 0, stream>>>(dy, y, count);
  check_launch("mask_gradient");
}

void pass_on(const float* from, float* to, int64_t count, bool adds, cudaStream_t stream) {
  pass_on_kernel<<<blocks_for(count), kThreads, 0, stream>>>(from, to, count, adds);
  check_launch("pass_on");
}

void channel_sums(const float* dy, float* sums, int64_t batch, int64_t channels, int64_t pixels,
                  cudaStream_t stream) {
  channel_sums_kernel<<<int(channels), kThreads, 0, stream>>>(dy, sums, batch, channels, pixels);
  check_launch("channel_sums");
}

void softmax_cross_entropy(const float* scores, const uint32_t* labels, int64_t batch,
                           int64_t classes, float scale, float* gradient, double* losses,
                           int* correct, cudaStream_t stream) {
  const int64_t threads = batch * kWarp;
  const int blocks = int((threads + kThreads - 1) / kThreads);
  softmax_kernel<<<blocks, kThreads, 0, stream>>>(scores, labels, batch, classes, scale, gradient,
                                                  losses, correct);
  check_launch("softmax_cross_entropy");
}

void add_up(const double* losses, const int* correct, int64_t batch, float scale, Totals* totals,
            float* share, cudaStream_t stream) {
  add_up_kernel<<<1, kThreads, 0, stream>>>(losses, correct, batch, scale, totals, share);
  check_launch("add_up");
}

void scale(float* values, int64_t count, float factor, cudaStream_t stream) {
  if (count == 0) return;
  scale_kernel<<<blocks_for(count), kThreads, 0, stream>>>(values, count, factor);
  check_launch("scale");
}

void sgd(float* weights, float* velocity, const float* gradients, int64_t count,
         float learning_rate, float momentum, float weight_decay, float* broken,
         cudaStream_t stream) {
  if (count == 0) return;
  sgd_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      weights, velocity, gradients, count, learning_rate, momentum, weight_decay, broken);
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
