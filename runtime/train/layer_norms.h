#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/optim/blocks.h"

namespace dlflow::runtime {

/// Euclidean norms of layers, whose computation the ranks share out: each adds up the squares of
/// its blocks, and all get the sums of all blocks. Every rank adds these in one order, so that the
/// bits do not depend on the number of ranks.
/// Source: the parallel tensor operator of Shi et al., arXiv 2010.10458; by blocks, not by layers,
/// so that a large layer is no rank's alone.
class LayerNorms {
 public:
  /// The same `layers` on all ranks. `comm` must outlive this.
  LayerNorms(Communicator& comm, std::span<const LayerSlot> layers);

  const std::vector<Block>& blocks() const { return blocks_; }

  /// Those of `rank`, neighbours, about as many elements as others have.
  std::span<const Block> blocks_of(int rank) const;

  /// [i][layer] of the i-th of `buffers`, of which this rank reads its own blocks alone.
  /// Collective: an all-gather of 8 bytes per block and buffer.
  std::vector<std::vector<double>> of(std::initializer_list<std::span<const float>> buffers) const;

 private:
  Communicator& comm_;
  size_t num_layers_;
  std::vector<Block> blocks_;
  std::vector<size_t> begins_;  // of each rank's
};

}  // namespace dlflow::runtime
