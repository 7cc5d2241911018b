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
__device__ void normalize(const Maps& maps, const Normalization& channel,
                          const BatchNormForward& pass) {
  visit_channel<kWidth>(maps, [&](int64_t at) {
    auto group = load<kWidth>(pass.x + at);
    for (float& value : group.values) value = channel.of(value);
    if (pass.second) {
      const auto more = load<kWidth>(pass.second + at);
      for (int i = 0; i < kWidth; ++i) group.values[i] += more.values[i];
    }
    if (pass.output.relu) {
      for (float& value : group.values) value = relu(value);
    }
    store(pass.output.y + at, group);
  });
}

template <int kWidth>
__global__ void normalize_batch(Maps maps, BatchNormChannels channels, const Pair* of_blocks,
                                BatchNormForward pass, BatchStatistics statistics) {
  const unsigned channel = blockIdx.x;
  const double n = double(per_channel(maps));
  const Pair sums = of_channel(of_blocks);
  const double difference = sums.first / n;
  const double variance = max(sums.second / n - difference * difference, 0.0);
  const float mean = float(double(pass.x[channel * maps.pixels]) + difference);
  const float inverse = float(1 / sqrt(variance + double(pass.epsilon)));
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    channels.mean[channel] = mean;
    channels.inverse_deviation[channel] = inverse;
    statistics.mean[channel] = mean;
    statistics.variance[channel] = n > 1 ? float(variance * n / (n - 1)) : 0;
  }
  normalize<kWidth>(maps, {mean, inverse * channels.weight[channel], channels.bias[channel]}, pass);
}

template <int kWidth>
__global__ void normalize_by(Maps maps, Parameters parameters, BatchNormForward pass) {
  const unsigned channel = blockIdx.x;
  const float inverse =
      float(1 / sqrt(double(parameters.variance[channel]) + double(pass.epsilon)));
  normalize<kWidth>(
      maps,
      {parameters.mean[channel], inverse * parameters.weight[channel], parameters.bias[channel]},
      pass);
}

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

  __device__ Gradients(const BatchNormBackward& pass, const Channel& channel, int64_t at)
      : dy(load<kWidth>(pass.dy + at)), normalized(load<kWidth>(pass.x + at)) {
    if (pass.relu) {
      const auto y = pass.y ? load<kWidth>(pass.y + at) : results(channel);
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
__global__ void gradient_sums(Maps maps, BatchNormChannels channels, BatchNormBackward pass,
                              Pair* of_blocks) {
  const Channel channel(channels);
  float sum = 0, product = 0;
  visit_channel<kWidth>(maps, [&](int64_t at) {
    const Gradients<kWidth> here(pass, channel, at);
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
                               BatchNormBackward pass, BatchNormGradients gradients) {
  const Channel channel(channels);
  const Pair sums = of_channel(of_blocks);
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    gradients.bias[blockIdx.x] = float(sums.first);
    gradients.weight[blockIdx.x] = float(sums.second);
  }
  if (!gradients.input.to && !gradients.second.to) return;
  const double n = double(per_channel(maps));
  const float factor = channel.weight * channel.inverse;
  const float mean_gradient = float(sums.first / n), mean_product = float(sums.second / n);
  visit_channel<kWidth>(maps, [&](int64_t at) {
    const Gradients<kWidth> here(pass, channel, at);
    if (gradients.input.to) {
      Group<kWidth> dx;
      for (int i = 0; i < kWidth; ++i) {
        dx.values[i] =
            factor * (here.dy.values[i] - mean_gradient - here.normalized.values[i] * mean_product);
      }
      give(gradients.input, at, dx);
    }
    if (gradients.second.to) give(gradients.second, at, here.dy);  // last, may add to the input's
  });
}

}  // namespace

size_t batch_norm_scratch(const Maps& maps) {
  return size_t(blocks_per_channel(maps)) * size_t(maps.channels) * sizeof(Pair);
}

void batch_norm_forward(const Maps& maps, const BatchNormChannels& channels,
                        const BatchNormForward& pass, BatchStatistics statistics,
                        ScratchStream on) {
  Pair* const sums = static_cast<Pair*>(on.scratch);
  with_width(maps, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    value_sums<kWidth><<<channel_grid(maps), kThreads, 0, on.stream>>>(maps, pass.x, sums);
    normalize_batch<kWidth>
        <<<channel_grid(maps), kThreads, 0, on.stream>>>(maps, channels, sums, pass, statistics);
  });
  check_launch("batch_norm_forward");
}

void batch_norm_inference(const Maps& maps, const Parameters& parameters,
                          const BatchNormForward& pass, cudaStream_t stream) {
  with_width(maps, [&](auto width) {
    normalize_by<decltype(width)::value>
        <<<channel_grid(maps), kThreads, 0, stream>>>(maps, parameters, pass);
  });
  check_launch("batch_norm_inference");
}

void batch_norm_backward(const Maps& maps, const BatchNormChannels& channels,
                         const BatchNormBackward& pass, const BatchNormGradients& gradients,
                         ScratchStream on) {
  Pair* const sums = static_cast<Pair*>(on.scratch);
  with_width(maps, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    gradient_sums<kWidth>
        <<<channel_grid(maps), kThreads, 0, on.stream>>>(maps, channels, pass, sums);
    give_gradients<kWidth>
        <<<channel_grid(maps), kThreads, 0, on.stream>>>(maps, channels, sums, pass, gradients);
  });
  check_launch("batch_norm_backward");
}

}  // namespace dlflow::cuda
