#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/optim/blocks.h"

namespace dlflow::runtime {

/// Euclidean norms of layers, computed by all ranks together: each sums the squares of its own
/// blocks, and all get the sums of all blocks. Every rank adds these in the same order, so that the
/// bits do not depend on the number of ranks.
/// Source: the parallel tensor operator of Shi et al., arXiv 2010.10458; by blocks instead of
/// layers, so that no rank has a large layer alone.
class LayerNorms {
 public:
  /// All ranks pass the same `layers`. `comm` must outlive this.
  LayerNorms(Communicator& comm, std::span<const LayerSlot> layers);

  const std::vector<Block>& blocks() const { return blocks_; }

  /// The adjacent blocks of `rank`; ranks have about the same number of elements.
  std::span<const Block> blocks_of(int rank) const;

  /// Returns [i][layer] for the i-th of `buffers`. Each rank reads only its own blocks.
  /// Collective: an all-gather of 8 bytes per block and buffer.
  std::vector<std::vector<double>> of(std::initializer_list<std::span<const float>> buffers) const;

 private:
  Communicator& comm_;
  size_t num_layers_;
  std::vector<Block> blocks_;
  std::vector<size_t> begins_;  // index of each rank's first block, and the end
};

}  // namespace dlflow::runtime
