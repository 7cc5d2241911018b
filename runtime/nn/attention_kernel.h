#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/nn/huge_buffer.h"
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

/// softmax(q k' / sqrt(size)) v for each head, in blocks of 64 queries and 128 keys: the matrix of
/// all pairs is never in memory (Dao et al., FlashAttention, NeurIPS 2022). Causal blocks on the
/// diagonal are computed in strips that end at it. Numbers are fp32 or bf16; computation is in
/// fp32. The same arguments give the same bits.
class AttentionKernel {
 public:
  explicit AttentionKernel(const AttentionShape& shape);

  /// Keeps the logarithm of each row's sum of exponentials for backward().
  /// \param lengths  (B), positions that count in each sample, from 1 to T; empty: all.
  ///                 No position sees the others, and their rows of `y` and `dx` are 0: a sample
  ///                 has the same bits whatever T it is padded to.
  void forward(Numbers x, Numbers y, std::span<const float> lengths = {});

  /// Must follow forward() with the same `x`, `y` and `lengths`. Recomputes the blocks.
  void backward(Numbers x, Numbers y, Numbers dy, Numbers dx, std::span<const float> lengths = {});

  /// One head's part of the rows of a tensor (B,T,features) and of a panel.
  struct HeadRows {
    int64_t first, stride;  ///< in the tensor
    int64_t count, length;  ///< rows that count (the others are 0); all rows
    int64_t size;
    int64_t panel_stride;
  };

 private:
  void begin_sample(int64_t sample, std::span<const float> lengths);
  HeadRows head_rows(int64_t sample, int64_t index, int64_t features) const;
  HeadRows input_rows(int64_t sample, int64_t index) const;
  HeadRows result_rows(int64_t sample, int64_t head) const;
  void read_keys(Numbers x, int64_t sample, int64_t kv_head);
  void read_queries(Numbers x, int64_t sample, int64_t head);
  void rotate(HugeBuffer& panel, float direction) const;
  int64_t visible(int64_t query, int64_t column, int64_t columns) const;
  void forward_strip(int64_t first, float* logarithms);
  void backward_block(int64_t first, int64_t queries, const float* logarithms);
  void backward_strip(int64_t first, int64_t row, int64_t column, int64_t columns,
                      const float* logarithms);
  void add_to_keys(int64_t first, int64_t queries, int64_t column, int64_t columns);

  const AttentionShape shape_;
  const int64_t length_, size_;  // of a panel, rounded up to whole strips and lanes; the rest is 0
  int64_t count_ = 0, end_ = 0;  // of the current sample: positions, and rounded up to strips
  const float scale_;            // 1 / sqrt(size)
  std::vector<float> cosines_, sines_;  // (T, size / 2), if rotary
  std::vector<float> logarithms_;       // (B, heads, length_)
  HugeBuffer q_, k_, v_, o_;            // (length_, size_) of one head; q_ is scaled
  HugeBuffer dq_, dk_, dv_, do_;        // likewise
  HugeBuffer turned_k_, turned_v_;      // (size_, length_)
  std::vector<float> products_;         // (length_): each row's result times its gradient, summed
  HugeBuffer powers_, slopes_;          // of a block of pairs
};

}  // namespace dlflow::runtime
