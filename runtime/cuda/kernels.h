#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Loops over memory that cuDNN and cuBLASLt lack, or have only with a varying order of additions.
/// All are enqueued on `stream` and deterministic; none uses atomics.
namespace dlflow::cuda {

/// Sums over a batch.
struct Totals {
  double loss = 0;  ///< sum over samples
  long long num_correct = 0;
};

/// y += bias of its channel (if given); then ReLU, if requested. NaN stays.
void add_bias(float* y, const float* bias, int64_t batch, int64_t channels, int64_t pixels,
              bool relu, cudaStream_t stream);

/// y = a + b (if given); then ReLU, if requested. y may be a.
void add(const float* a, const float* b, float* y, int64_t count, bool relu, cudaStream_t stream);

/// dy = 0 where y is not above 0.
void mask_gradient(float* dy, const float* y, int64_t count, cudaStream_t stream);

/// to = from, or to += from with `adds`; from counts as 0 where y (if given) is not above 0.
void pass_on(const float* from, const float* y, float* to, int64_t count, bool adds,
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
/// `scratch`: bias_gradient_scratch() bytes.
void bias_gradient(float* dy, const float* y, float* sums, int64_t batch, int64_t channels,
                   int64_t pixels, void* scratch, cudaStream_t stream);
size_t bias_gradient_scratch(int64_t batch, int64_t channels, int64_t pixels);

/// sums = the sum of each column of (rows, columns).
void column_sums(const float* values, float* sums, int64_t rows, int64_t columns,
                 cudaStream_t stream);

/// For each sample: the loss, whether the highest score (the first in a tie) is the label's, and
/// `*scale` times the gradient of the loss (if `gradient` is given).
void softmax_cross_entropy(const float* scores, const uint32_t* labels, int64_t batch,
                           int64_t classes, const float* scale, float* gradient, double* losses,
                           int* correct, cudaStream_t stream);

/// Sums over the batch; multiplies `*share` (if given) by the loss.
void add_up(const double* losses, const int* correct, int64_t batch, Totals* totals, float* share,
            cudaStream_t stream);

/// values *= *scale * factor.
void scale(float* values, int64_t count, const float* scale, float factor, cudaStream_t stream);

/// One step, bitwise equal to dlflow's sgd_step (runtime/optim/optimizers.h). Sets `broken` to 1 if
/// a weight is no longer finite.
void sgd(float* weights, float* velocity, const float* gradients, int64_t count,
         float learning_rate, float momentum, float weight_decay, float* broken,
         cudaStream_t stream);

/// running += momentum * (of_batch - running).
void move_statistics(float* running, const float* of_batch, int64_t count, float momentum,
                     cudaStream_t stream);

}  // namespace dlflow::cuda
