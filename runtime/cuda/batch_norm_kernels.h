#pragma once

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

struct BatchNormForward {
  const float* x = nullptr;
  const float* second = nullptr;  ///< added to the result; null: none
  Output output;
  float epsilon = 0;
};

/// The targets of the running statistics.
struct BatchStatistics {
  float* mean = nullptr;
  float* variance = nullptr;  ///< unbiased; 0 for a single value
};

/// y = (x - mean) * inverse_deviation * weight + bias + second.
void batch_norm_forward(const Maps& maps, const BatchNormChannels& channels,
                        const BatchNormForward& pass, BatchStatistics statistics, ScratchStream on);

/// The same with given statistics.
void batch_norm_inference(const Maps& maps, const Parameters& parameters,
                          const BatchNormForward& pass, cudaStream_t stream);

/// The inputs of the backward pass. The result `y` of ReLU is only needed if something was added
/// before it; otherwise it is recomputed from x.
struct BatchNormBackward {
  const float *x = nullptr, *y = nullptr, *dy = nullptr;
  bool relu = false;  ///< whether the result passed through ReLU
};

struct BatchNormGradients {
  float *weight = nullptr, *bias = nullptr;
  GradientTo input, second;
};

/// Computes all gradients from `dy`.
void batch_norm_backward(const Maps& maps, const BatchNormChannels& channels,
                         const BatchNormBackward& pass, const BatchNormGradients& gradients,
                         ScratchStream on);

}  // namespace dlflow::cuda
