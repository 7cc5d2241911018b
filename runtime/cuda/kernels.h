#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Loops over memory that cuDNN and cuBLASLt have not, or not with a fixed order of additions. All
/// are enqueued on `stream`, and compute the same bits every time; no atomics.
namespace dlflow::cuda {

/// The sums over a batch.
struct Totals {
  double loss = 0;  ///< sum over samples
  long long num_correct = 0;
};

/// y += bias of its channel (if given); then ReLU, if asked for. NaN stays.
void add_bias(float* y, const float* bias, int64_t batch, int64_t channels, int64_t pixels,
              bool relu, cudaStream_t stream);

/// y = a + b (if given); then ReLU, if asked for. y may be a.
void add(const float* a, const float* b, float* y, int64_t count, bool relu, cudaStream_t stream);

/// dy = 0 where y is not above 0.
void mask_gradient(float* dy, const float* y, int64_t count, cudaStream_t stream);

/// to = from, or to += from.
void pass_on(const float* from, float* to, int64_t count, bool adds, cudaStream_t stream);

/// sums = those of each channel of dy.
void channel_sums(const float* dy, float* sums, int64_t batch, int64_t channels, int64_t pixels,
                  cudaStream_t stream);

/// Of each sample: the loss, whether the highest score (the first of equals) is the label's, and
/// `scale` times the gradient of the loss (if `gradient` is given).
void softmax_cross_entropy(const float* scores, const uint32_t* labels, int64_t batch,
                           int64_t classes, float scale, float* gradient, double* losses,
                           int* correct, cudaStream_t stream);

/// Sums over the batch, and `scale` times the loss as a float (if `share` is given).
void add_up(const double* losses, const int* correct, int64_t batch, float scale, Totals* totals,
            float* share, cudaStream_t stream);

/// values *= factor.
void scale(float* values, int64_t count, float factor, cudaStream_t stream);

/// One step as dlflow's sgd_step (runtime/optim/optimizers.h), to the bit. `broken` becomes 1 if a
/// weight is not a finite number now.
void sgd(float* weights, float* velocity, const float* gradients, int64_t count,
         float learning_rate, float momentum, float weight_decay, float* broken,
         cudaStream_t stream);

/// running += momentum * (of_batch - running).
void move_statistics(float* running, const float* of_batch, int64_t count, float momentum,
                     cudaStream_t stream);

}  // namespace dlflow::cuda
