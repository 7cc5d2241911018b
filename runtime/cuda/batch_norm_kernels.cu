#include "runtime/cuda/batch_norm_kernels.h"
#include "runtime/cuda/cuda_check.h"
#include "runtime/cuda/reduction.cuh"

namespace dlflow::cuda {
namespace {

/// Two sums of a block, or of a channel.
struct Pair {
  double first, second;
};

/// Adds up the sums of a channel's blocks; every lane of a warp gets the result.
__device__ Pair of_channel(const Pair* of_blocks) {
  const unsigned lane = threadIdx.x % kWarp;
  const Pair mine = lane < gridDim.y ? of_blocks[blockIdx.x * gridDim.y + lane] : Pair{0.0, 0.0};
  return {warp_sum(mine.first), warp_sum(mine.second)};
}

__device__ void keep(Pair* of_blocks, double first, double second) {
  const Pair sums = {block_sum(first), block_sum(second)};
  if (threadIdx.x == 0) of_blocks[blockIdx.x * gridDim.y + blockIdx.y] = sums;
}

/// The sums of x - origin and of its square. The origin is the channel's first number, which is
/// near the mean, so that little cancels in the variance.
template <int kWidth>
__global__ void value_sums(Maps maps, const float* x, Pair* of_blocks) {
  const float origin = x[blockIdx.x * maps.pixels];
  float sum = 0, squares = 0;
  visit_channel<kWidth>(maps, [&](int64_t at) {
    const auto group = load<kWidth>(x + at);
    for (const float value : group.values) {
      const float difference = value - origin;
      sum += difference;
      squares += difference * difference;
    }
  });
  keep(of_blocks, sum, squares);
}

/// Normalises a channel's numbers, with the same bits in every kernel.
struct Normalization {
  float mean, factor, bias;
  __device__ float of(float x) const { return __fmaf_rn(x - mean, factor, bias); }
};

template <int kWidth>
__device__ void normalize(const Maps& maps, const Normalization& channel, const float* x,
                          const float* second, float* y, bool with_relu) {
  visit_channel<kWidth>(maps, [&](int64_t at) {
    auto group = load<kWidth>(x + at);
    for (float& value : group.values) value = channel.of(value);
    if (second) {
      const auto more = load<kWidth>(second + at);
      for (int i = 0; i < kWidth; ++i) group.values[i] += more.values[i];
    }
    if (with_relu) {
      for (float& value : group.values) value = relu(value);
    }
    store(y + at, group);
  });
}

template <int kWidth>
__global__ void normalize_batch(Maps maps, BatchNormChannels channels, const Pair* of_blocks,
                                const float* x, const float* second, float* y, bool with_relu,
                                double epsilon, float* batch_mean, float* batch_variance) {
  const unsigned channel = blockIdx.x;
  const double n = double(per_channel(maps));
  const Pair sums = of_channel(of_blocks);
  const double difference = sums.first / n;
  const double variance = max(sums.second / n - difference * difference, 0.0);
  const float mean = float(double(x[channel * maps.pixels]) + difference);
  const float inverse = float(1 / sqrt(variance + epsilon));
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    channels.mean[channel] = mean;
    channels.inverse_deviation[channel] = inverse;
    batch_mean[channel] = mean;
    batch_variance[channel] = n > 1 ? float(variance * n / (n - 1)) : 0;
  }
  normalize<kWidth>(maps, {mean, inverse * channels.weight[channel], channels.bias[channel]}, x,
                    second, y, with_relu);
}

template <int kWidth>
__global__ void normalize_by(Maps maps, const float* weight, const float* bias, const float* mean,
                             const float* variance, const float* x, const float* second, float* y,
                             bool with_relu, double epsilon) {
  const unsigned channel = blockIdx.x;
  const float inverse = float(1 / sqrt(double(variance[channel]) + epsilon));
  normalize<kWidth>(maps, {mean[channel], inverse * weight[channel], bias[channel]}, x, second, y,
                    with_relu);
}

/// The inputs of the backward pass. The result of ReLU is only read if something was added before
/// it; otherwise it is recomputed from x.
struct Before {
  const float *x, *y, *dy;
  bool relu;
};

/// The statistics and parameters of a block's channel.
struct Channel {
  float mean, inverse, weight, bias;

  __device__ explicit Channel(const BatchNormChannels& channels)
      : mean(channels.mean[blockIdx.x]),
        inverse(channels.inverse_deviation[blockIdx.x]),
        weight(channels.weight[blockIdx.x]),
        bias(channels.bias[blockIdx.x]) {}
};

/// For kWidth adjacent numbers: the gradient before ReLU, and normalised x.
template <int kWidth>
struct Gradients {
  Group<kWidth> dy, normalized;

  __device__ Gradients(const Before& before, const Channel& channel, int64_t at)
      : dy(load<kWidth>(before.dy + at)), normalized(load<kWidth>(before.x + at)) {
    if (before.relu) {
      const auto y = before.y ? load<kWidth>(before.y + at) : results(channel);
      for (int i = 0; i < kWidth; ++i) dy.values[i] = passes(dy.values[i], y.values[i]);
    }
    for (float& value : normalized.values) value = (value - channel.mean) * channel.inverse;
  }

 private:
  /// The results for x, which `normalized` holds at this point.
  __device__ Group<kWidth> results(const Channel& channel) const {
    const Normalization before_relu{channel.mean, channel.inverse * channel.weight, channel.bias};
    Group<kWidth> y;
    for (int i = 0; i < kWidth; ++i) y.values[i] = before_relu.of(normalized.values[i]);
    return y;
  }
};

/// The sums of dy and of dy * normalised x.
template <int kWidth>
__global__ void gradient_sums(Maps maps, BatchNormChannels channels, Before before,
                              Pair* of_blocks) {
  const Channel channel(channels);
  float sum = 0, product = 0;
  visit_channel<kWidth>(maps, [&](int64_t at) {
    const Gradients<kWidth> here(before, channel, at);
    for (int i = 0; i < kWidth; ++i) {
      sum += here.dy.values[i];
      product += here.dy.values[i] * here.normalized.values[i];
    }
  });
  keep(of_blocks, sum, product);
}

template <int kWidth>
__device__ void give(const GradientTo& where, int64_t at, Group<kWidth> gradient) {
  if (where.adds) {
    const auto before = load<kWidth>(where.to + at);
    for (int i = 0; i < kWidth; ++i) gradient.values[i] += before.values[i];
  }
  store(where.to + at, gradient);
}

template <int kWidth>
__global__ void give_gradients(Maps maps, BatchNormChannels channels, const Pair* of_blocks,
                               Before before, float* weight_gradient, float* bias_gradient,
                               GradientTo input, GradientTo second) {
  const Channel channel(channels);
  const Pair sums = of_channel(of_blocks);
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    bias_gradient[blockIdx.x] = float(sums.first);
    weight_gradient[blockIdx.x] = float(sums.second);
  }
  if (!input.to && !second.to) return;
  const double n = double(per_channel(maps));
  const float factor = channel.weight * channel.inverse;
  const float mean_gradient = float(sums.first / n), mean_product = float(sums.second / n);
  visit_channel<kWidth>(maps, [&](int64_t at) {
    const Gradients<kWidth> here(before, channel, at);
    if (input.to) {
      Group<kWidth> dx;
      for (int i = 0; i < kWidth; ++i) {
        dx.values[i] =
            factor * (here.dy.values[i] - mean_gradient - here.normalized.values[i] * mean_product);
      }
      give(input, at, dx);
    }
    if (second.to) give(second, at, here.dy);  // last, may add to the input's
  });
}

}  // namespace

size_t batch_norm_scratch(const Maps& maps) {
  return size_t(blocks_per_channel(maps)) * size_t(maps.channels) * sizeof(Pair);
}

void batch_norm_forward(const Maps& maps, const BatchNormChannels& channels, const float* x,
                        const float* second, float* y, bool relu, float epsilon, float* batch_mean,
                        float* batch_variance, void* scratch, cudaStream_t stream) {
  Pair* const sums = static_cast<Pair*>(scratch);
  with_width(maps, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    value_sums<kWidth><<<channel_grid(maps), kThreads, 0, stream>>>(maps, x, sums);
    normalize_batch<kWidth><<<channel_grid(maps), kThreads, 0, stream>>>(
        maps, channels, sums, x, second, y, relu, epsilon, batch_mean, batch_variance);
  });
  check_launch("batch_norm_forward");
}

void batch_norm_inference(const Maps& maps, const float* weight, const float* bias,
                          const float* mean, const float* variance, const float* x,
                          const float* second, float* y, bool relu, float epsilon,
                          cudaStream_t stream) {
  with_width(maps, [&](auto width) {
    normalize_by<decltype(width)::value><<<channel_grid(maps), kThreads, 0, stream>>>(
        maps, weight, bias, mean, variance, x, second, y, relu, epsilon);
  });
  check_launch("batch_norm_inference");
}

void batch_norm_backward(const Maps& maps, const BatchNormChannels& channels, const float* x,
                         const float* y, const float* dy, bool relu, float* weight_gradient,
                         float* bias_gradient, GradientTo input, GradientTo second, void* scratch,
                         cudaStream_t stream) {
  Pair* const sums = static_cast<Pair*>(scratch);
  const Before before{x, y, dy, relu};
  with_width(maps, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    gradient_sums<kWidth>
        <<<channel_grid(maps), kThreads, 0, stream>>>(maps, channels, before, sums);
    give_gradients<kWidth><<<channel_grid(maps), kThreads, 0, stream>>>(
        maps, channels, sums, before, weight_gradient, bias_gradient, input, second);
  });
  check_launch("batch_norm_backward");
}

}  // namespace dlflow::cuda
