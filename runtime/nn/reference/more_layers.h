#pragma once

#include "runtime/nn/reference/layers.h"

/// The layers beyond those of runtime/nn/reference/layers.h: normalisation of rows and groups,
/// attention, tokens, and layers that resize maps.
namespace dlflow::runtime::reference {

/// (B,C,H,W); mean and variance of each image and set of C / groups neighbouring channels.
Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups);
Gradients group_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                              int64_t groups);

/// Along the last dimension; `centred` subtracts the mean and adds a bias (which may be empty).
Tensor row_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, bool centred);
Gradients row_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, bool centred);

/// Along the last dimension.
Tensor softmax(const Tensor& x);
Tensor softmax_backward(const Tensor& y, const Tensor& dy);

/// (B,C,H,W) -> (B,C,size): means of rows floor(i H / H') to ceil((i + 1) H / H'), as in PyTorch.
Tensor adaptive_avg_pool(const Tensor& x, Extent size);
Tensor adaptive_avg_pool_backward(const Tensor& x, const Tensor& dy);

/// Each pixel becomes a square of `scale` x `scale`.
Tensor upsample(const Tensor& x, int64_t scale);
Tensor upsample_backward(const Tensor& x, const Tensor& dy, int64_t scale);

/// Concatenates along `dimension`; split() is the inverse.
Tensor concat(const std::vector<const Tensor*>& inputs, size_t dimension);
std::vector<Tensor> split(const Tensor& dy, const std::vector<const Tensor*>& inputs,
                          size_t dimension);

/// (B,T) numbers of tokens, weight (V,F) -> (B,T,F)
Tensor embedding(const Tensor& tokens, const Tensor& weight);
Tensor embedding_backward(const Tensor& tokens, const Tensor& weight, const Tensor& dy);

struct Heads {
  int64_t queries = 1, keys = 1;
  bool causal = true, rotary = false;
};

/// The number of leading positions that count in each sample; empty: all do.
using Lengths = std::span<const float>;

/// (B,T,(queries + 2 keys) D) -> (B,T,queries D): softmax(q k' / sqrt(D)) v of each head, over the
/// positions that count; 0 at the others.
Tensor attention(const Tensor& x, const Heads& heads, Lengths lengths);
Tensor attention_backward(const Tensor& x, const Tensor& dy, const Heads& heads, Lengths lengths);

/// (B,T,F) -> (B,F): the mean over the positions that count.
Tensor mean_pool(const Tensor& x, Lengths lengths);
Tensor mean_pool_backward(const Tensor& x, const Tensor& dy, Lengths lengths);

}  // namespace dlflow::runtime::reference
