#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "runtime/cuda/maps.h"

/// Batch normalisation of (batch, channels, pixels) in plain order, over batch and pixels. Each
/// pass reads its inputs once for the sums and once for the result. Sums are added in a fixed
/// order, so that the same numbers give the same bits. Sources: Ioffe and Szegedy, "Batch
/// Normalization" (2015), equations of algorithm 1 and section 3.
namespace dlflow::cuda {

/// Bytes of scratch memory that both passes of training need.
size_t batch_norm_scratch(const Maps& maps);

/// Arrays of one number per channel.
struct BatchNormChannels {
  const float *weight = nullptr, *bias = nullptr;
  float* mean = nullptr;               ///< of the last batch
  float* inverse_deviation = nullptr;  ///< 1 / sqrt(variance + epsilon) of the last batch
};

/// y = (x - mean) * inverse_deviation * weight + bias + second (if given); then ReLU, if requested.
/// Writes the targets of the running statistics to `batch_mean` and `batch_variance` (unbiased; 0
/// for a single value).
void batch_norm_forward(const Maps& maps, const BatchNormChannels& channels, const float* x,
                        const float* second, float* y, bool relu, float epsilon, float* batch_mean,
                        float* batch_variance, void* scratch, cudaStream_t stream);

/// The same with given statistics.
void batch_norm_inference(const Maps& maps, const float* weight, const float* bias,
                          const float* mean, const float* variance, const float* x,
                          const float* second, float* y, bool relu, float epsilon,
                          cudaStream_t stream);

/// The destination of a gradient; none if `to` is null.
struct GradientTo {
  float* to = nullptr;
  bool adds = false;
};

/// Computes all gradients from `dy`, that of the result `y`; with `relu`, the result passed through
/// ReLU. `y` may be null unless something was added before ReLU.
void batch_norm_backward(const Maps& maps, const BatchNormChannels& channels, const float* x,
                         const float* y, const float* dy, bool relu, float* weight_gradient,
                         float* bias_gradient, GradientTo input, GradientTo second, void* scratch,
                         cudaStream_t stream);

}  // namespace dlflow::cuda
