#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "runtime/cuda/maps.h"
#include "runtime/gpu/plugin_abi.h"

/// Loops over memory that cuDNN and cuBLASLt lack, or have only with a varying order of additions.
/// All are enqueued on `stream` and deterministic; none uses atomics.
namespace dlflow::cuda {

/// Sums over a batch.
struct Totals {
  double loss = 0;  ///< sum over samples
  long long num_correct = 0;
};

/// y += bias of its channel (if given). NaN stays.
void add_bias(const Maps& maps, const float* bias, Output output, cudaStream_t stream);

/// y = a + b (if given). y may be a.
void add(const float* a, const float* b, Output output, int64_t count, cudaStream_t stream);

/// dy = 0 where y is not above 0.
void mask_gradient(float* dy, const float* y, int64_t count, cudaStream_t stream);

/// to = from, or to += from; from counts as 0 where y (if given) is not above 0.
void pass_on(const float* from, const float* y, GradientTo gradient, int64_t count,
             cudaStream_t stream);

/// Maps (num_maps, height, width), of which only every `stride`th number of every `stride`th row is
/// given.
struct Spread {
  int64_t num_maps = 0;
  int height = 0, width = 0, stride = 1;
  bool adds = false;

  __host__ __device__ int rows_given() const { return (height - 1) / stride + 1; }
  __host__ __device__ int columns_given() const { return (width - 1) / stride + 1; }
};

/// to = from where a number is given, else 0; with `adds`, to += from there.
void spread(const float* from, float* to, const Spread& maps, cudaStream_t stream);

/// sums = the sum of each channel of dy, after setting dy to 0 where y (if given) is not above 0.
/// Scratch memory: bias_gradient_scratch() bytes; none with one pixel.
void bias_gradient(const Maps& maps, float* dy, const float* y, float* sums, ScratchStream on);
size_t bias_gradient_scratch(const Maps& maps);

/// sums = the sum of each column of (rows, columns).
void column_sums(const float* values, float* sums, int64_t rows, int64_t columns,
                 cudaStream_t stream);

/// The scores (batch, classes) of a batch, and its labels.
struct Scores {
  const float* scores = nullptr;
  const uint32_t* labels = nullptr;
  int64_t batch = 0, classes = 0;
};

/// The loss of each sample, and whether its highest score (the first in a tie) is the label's.
struct SampleLosses {
  double* losses = nullptr;
  int* correct = nullptr;
};

/// Also writes `*scale` times the gradient of the loss (if `gradient` is given).
void softmax_cross_entropy(const Scores& scores, const float* scale, float* gradient,
                           SampleLosses losses, cudaStream_t stream);

/// Sums over the batch; multiplies `*share` (if given) by the loss.
void add_up(SampleLosses losses, int64_t batch, Totals* totals, float* share, cudaStream_t stream);

/// values *= *scale * factor.
void scale(float* values, int64_t count, const float* scale, float factor, cudaStream_t stream);

struct TrainedWeights {
  float *weights = nullptr, *velocity = nullptr;
  const float* gradients = nullptr;
  int64_t count = 0;
};

/// One step, bitwise equal to dlflow's sgd_step (runtime/optim/optimizers.h). Sets `broken` to 1 if
/// a weight is no longer finite.
void sgd(const TrainedWeights& trained, const DlflowGpuSgd& options, float* broken,
         cudaStream_t stream);

/// running += momentum * (of_batch - running).
void move_statistics(float* running, const float* of_batch, int64_t count, float momentum,
                     cudaStream_t stream);

}  // namespace dlflow::cuda
