#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

namespace dlflow::runtime {

/// The numbers of a tensor by its name, "wte.weight", in plain order; its size is given.
using TensorReader = std::function<std::vector<float>(const std::string& name, size_t size)>;

/// A decoder-only language model that reads one token after the other. Attention keeps the keys and
/// values of the tokens before, so that a token costs one pass over the weights, however many there
/// were. fp32, by kernels of its own; scores differ from those of Network by rounding alone. The
/// same tokens give the same bits for any number of threads.
class TokenNetwork {
 public:
  /// Throws Error{InvalidInput} naming the layer that it cannot compute token by token: attention
  /// that is not causal, and layers of pictures; or if the loss is not next_token. Throws what
  /// `read` throws.
  TokenNetwork(const Model& model, const TensorReader& read);

  /// Tokens that it has places for.
  size_t length() const { return length_; }
  size_t vocabulary() const { return vocabulary_; }

  /// Number of tokens read since the beginning.
  size_t position() const { return position_; }

  /// Forgets all tokens.
  void restart() { position_ = 0; }

  /// Reads a token, which is below vocabulary(), at position() < length(). The scores of each token
  /// to follow it, valid until the next call.
  std::span<const float> read(uint32_t token);

 private:
  struct Step {
    Layer layer;
    std::vector<float> weight, bias;  // those that the layer has
    size_t shared = 0;                // the step that has its weight
    std::vector<float> keys, values;  // (T, kv_heads * size), of attention
    std::vector<float> result;        // of one token
  };

  Step make_step(const Model& model, const Layer& layer, const TensorReader& read);
  void compute(Step& step, uint32_t token);
  void attend(Step& step, std::span<const float> x);
  std::span<const float> input(const Step& step, size_t which = 0) const;

  size_t length_ = 0, vocabulary_ = 0, position_ = 0;
  std::vector<Step> steps_;  // one per layer
  std::vector<float> shares_;
};

}  // namespace dlflow::runtime
