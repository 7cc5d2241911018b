#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/optim/optimizer.h"

/// Blocks that divide work on whole layers among ranks. Their sums are added in a fixed order, so
/// the bits do not depend on the division.
namespace dlflow::runtime {

/// A layer's elements in a flat buffer.
struct LayerSlot {
  size_t first = 0, count = 0;
  bool is_vector = false;  ///< one dimension: biases, and the parameters of batch normalisation
  double rate = 1;         ///< factor of its learning rate
  std::optional<double> weight_decay = std::nullopt;  ///< overrides the usual one

  /// Terms of its step before the trust ratio. `decays_vectors`: vectors also have the usual weight
  /// decay.
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

/// Divides each layer into blocks of 16384 elements (64 KiB; with as many weights, half of an L2
/// cache) and a remainder. Empty layers have no blocks.
std::vector<Block> make_blocks(std::span<const LayerSlot> layers);

/// Divides neighbouring blocks among `shares` with about equal numbers of elements: share i has
/// blocks [result[i], result[i + 1]).
std::vector<size_t> share_out(std::span<const Block> blocks, size_t shares);

/// The sum of the squares of `values` in double precision, with the same bits on every CPU.
double sum_of_squares(std::span<const float> values);

}  // namespace dlflow::runtime
