#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/optim/optimizer.h"

/// Blocks that divide the work on whole layers among ranks. Their sums are added in one order, so
/// that the bits do not depend on the division.
namespace dlflow::runtime {

/// A layer's elements in a flat buffer.
struct LayerSlot {
  size_t first = 0, count = 0;
  bool is_vector = false;  ///< one dimension: biases, and the parameters of batch normalisation
  double rate = 1;         ///< what its learning rate is multiplied by
  std::optional<double> weight_decay = std::nullopt;  ///< of its own

  /// Its step, without a ratio of its norms. `decays_vectors`: the usual weight decay is for
  /// vectors, too.
  LayerTerms terms(bool decays_vectors) const {
    return {rate, weight_decay || decays_vectors || !is_vector, weight_decay};
  }
};

/// Neighbouring elements of one layer.
struct Block {
  size_t layer = 0;
  size_t first = 0, count = 0;

  bool operator==(const Block&) const = default;
};

/// Divides each layer into blocks of 16384 elements (64 KiB, half of a second-level cache together
/// with as many weights) and a rest. Layers without elements have none.
std::vector<Block> make_blocks(std::span<const LayerSlot> layers);

/// Divides neighbouring blocks among `shares`, so that each has about as many elements: share i has
/// blocks [result[i], result[i + 1]).
std::vector<size_t> share_out(std::span<const Block> blocks, size_t shares);

/// The sum of the squares of `values` in double precision, with the same bits on every CPU.
double sum_of_squares(std::span<const float> values);

}  // namespace dlflow::runtime
