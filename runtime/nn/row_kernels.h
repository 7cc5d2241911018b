#pragma once

#include <cstdint>
#include <span>

#include "runtime/nn/kernels.h"

/// Loops over the rows of a matrix: (B,F), or (B,T,F) as B*T rows. Numbers are fp32 or bf16;
/// computation is in fp32. Single-threaded; the same arguments give the same bits.
namespace dlflow::runtime {

struct RowShape {
  int64_t rows = 0, features = 0;
};

/// Epsilon of layer and group normalisation, as in PyTorch.
constexpr float kNormEpsilon = 1e-5f;

/// Layer normalisation, or with `centred` false root-mean-square normalisation (Zhang and Sennrich,
/// NeurIPS 2019): y = (x - mean) * scale * weight + bias, where a row's scale is 1 / sqrt(variance
/// (or mean square) + epsilon).
struct RowNorm {
  RowShape shape;
  bool centred = true;
  const float* weight = nullptr;  ///< (F)
  const float* bias = nullptr;    ///< (F), or null
};

/// The backward pass of layer or group normalisation: its inputs, and the gradient of x.
struct NormBackward {
  Numbers x, dy;
  const float *means, *scales;  ///< written by the forward pass
  Numbers dx;
};

/// Also writes each row's mean and scale, which the backward pass needs.
void row_norm_forward(const RowNorm& norm, Numbers x, Numbers y, float* means, float* scales);

/// Writes dx and the gradients of weight and bias (if there is one).
void row_norm_backward(const RowNorm& norm, const NormBackward& pass, NormGradients gradients);

/// y = exp(x) / sum of exp(x), along each row.
void softmax_forward(RowShape shape, Numbers x, Numbers y);
void softmax_backward(RowShape shape, Numbers y, Numbers dy, Numbers dx);

/// Marks a row without a target.
constexpr uint32_t kNoTarget = UINT32_MAX;

struct TokenSums {
  double loss = 0;
  int64_t num_correct = 0;
  int64_t num_targets = 0;
};

struct ScoreRows {
  const float* numbers = nullptr;
  int64_t rows = 0, classes = 0;
};

struct TokenTargets {
  std::span<const uint32_t> tokens;  ///< of each row: its target, or kNoTarget
  std::span<const float> shares;     ///< of each row in the loss
  double smoothing = 0;              ///< as in CrossEntropy
};

/// Softmax cross-entropy of each row that has a target, times its share. `probabilities` of the
/// others are not written.
TokenSums token_cross_entropy(const ScoreRows& scores, const TokenTargets& targets,
                              float* probabilities);

/// gradient = scale * share * (probabilities - target), 0 in rows without a target.
void token_cross_entropy_backward(const ScoreRows& probabilities, const TokenTargets& targets,
                                  float scale, float* gradient);

/// y[r] = table[token of r].
/// Throws Error{InvalidInput} if a token is not a whole number below `vocabulary`.
void embed(const float* tokens, RowShape shape, const float* table, int64_t vocabulary, Numbers y);

/// gradient[token of r] += dy[r], one row after the other.
void embed_backward(const float* tokens, RowShape shape, Numbers dy, float* gradient);

/// y[r] = x[r] + table[r % length].
void add_table_rows(RowShape shape, int64_t length, Numbers x, const float* table, Numbers y);

/// (B,T,F)
struct SequenceShape {
  int64_t batch = 0, length = 0, features = 0;
};

/// y (B,F) = the mean over the first `lengths` positions of each sample; empty: over all.
void mean_pool_forward(SequenceShape shape, std::span<const float> lengths, Numbers x, Numbers y);

/// dx = dy / length at these positions, 0 at the others.
void mean_pool_backward(SequenceShape shape, std::span<const float> lengths, Numbers dy,
                        Numbers dx);

/// gradient[t] = the sum of dy[r] with r % length = t.
void sum_table_rows(RowShape shape, int64_t length, Numbers dy, float* gradient);

}  // namespace dlflow::runtime
