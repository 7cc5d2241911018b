#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/kernels.h"

namespace dlflow::runtime {

/// Attention of (B,T) positions. A row of its input has the queries of all heads, then the keys,
/// then the values of all `kv_heads`, each `size` numbers; heads / kv_heads neighbouring heads
/// share a key and a value (Ainslie et al., EMNLP 2023). A row of the result has `heads * size`
/// numbers.
struct AttentionShape {
  int64_t batch = 0, length = 0;
  int64_t heads = 0, kv_heads = 0, size = 0;
  bool causal = true;   ///< a position attends to itself and those before it
  bool rotary = false;  ///< queries and keys are rotated by their position (Su et al., RoFormer)

  int64_t input_features() const { return (heads + 2 * kv_heads) * size; }
  int64_t result_features() const { return heads * size; }
};

/// softmax(q k' / sqrt(size)) v for each head, in blocks of 128 x 128 positions: the matrix of all
/// pairs is never in memory (Dao et al., FlashAttention, NeurIPS 2022). Numbers are fp32 or bf16
/// and are computed with in fp32. The same bits for the same arguments and number of threads.
class AttentionKernel {
 public:
  explicit AttentionKernel(const AttentionShape& shape);

  /// Keeps the logarithm of each row's sum of powers for backward().
  /// \param lengths  (B), the positions of each sample that count, from 1 to T, or none: all do.
  /// The
  ///                 others are seen by no position, and their rows of `y` and `dx` are 0: a sample
  ///                 has the same bits whatever T it is filled up to.
  void forward(Numbers x, Numbers y, std::span<const float> lengths = {});

  /// After forward() with the same `x`, `y` and `lengths`. Computes the blocks once more.
  void backward(Numbers x, Numbers y, Numbers dy, Numbers dx, std::span<const float> lengths = {});

 private:
  void read_keys(Numbers x, int64_t sample, int64_t kv_head);
  void read_queries(Numbers x, int64_t sample, int64_t head);
  void forward_block(int64_t first, int64_t rows, float* logarithms);
  void backward_block(int64_t first, int64_t rows, const float* logarithms);
  void rotate(std::vector<float>& panel, float direction) const;

  const AttentionShape shape_;
  int64_t length_ = 0;                         // positions that count of the sample at hand
  const float scale_;                          // 1 / sqrt(size)
  std::vector<float> cosines_, sines_;         // (T, size / 2), if it is rotary
  std::vector<float> logarithms_;              // (B, heads, T)
  std::vector<float> q_, k_, v_, o_;           // (T, size) of one head; q_ is scaled
  std::vector<float> dq_, dk_, dv_, do_;       // likewise
  std::vector<float> products_;                // (T): of a row's result and its gradient
  std::vector<float> block_, gradient_block_;  // of pairs
};

}  // namespace dlflow::runtime
