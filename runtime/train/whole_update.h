#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/optim/blocks.h"
#include "runtime/optim/optimizer.h"
#include "runtime/settings/update.h"

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

/// The distribution of the weights and of the optimizer's state over ranks.
enum class StateSharing {
  Replicas,  ///< each rank has all of both
  OneCopy,   ///< the ranks share one copy in their node's memory
  Shards,    ///< each rank has all weights, but only its blocks of the optimizer's state (ZeRO-1)
};

/// Weights and the optimizer's state for them.
struct TrainedBuffers {
  std::span<float> weights;
  std::vector<std::span<float>> state;
  size_t state_begin = 0;  ///< index of the weight that the first of `state` is for

  Elements part(size_t first, size_t count) const;
};

/// Updates that need the whole gradient: because its norm is clipped, because layers' norms count,
/// or because ranks have shards of the state. Ranks always share the computation of norms, and the
/// rest if they share the state. The bits do not depend on the sharing.
class WholeUpdate {
 public:
  /// The arguments must outlive this.
  WholeUpdate(Communicator& comm, Optimizer& optimizer, std::vector<LayerSlot> layers,
              const UpdateSettings& settings, StateSharing sharing);

  /// The elements whose state this rank needs: its own blocks with Shards, else all.
  struct Extent {
    size_t first = 0, count = 0;
  };
  Extent extent_of(int rank) const;

  /// The elements that apply() updates on this rank.
  Extent updated_extent() const;

  /// Makes the step that the optimizer has begun, in every layer. Changes `gradients`, which all
  /// ranks share with OneCopy. Collective; with OneCopy, other ranks may still work on their blocks
  /// when it returns. False if a weight is no longer finite; with OneCopy, only in this rank's
  /// blocks.
  ///
  /// Clipping multiplies all gradients by min(1, clip_norm / (norm + 1e-6)), as
  /// torch.nn.utils.clip_grad_norm_ does.
  [[nodiscard]] bool apply(std::span<float> gradients, const TrainedBuffers& trained);

 private:
  std::span<const Block> updated() const;
  LayerTerms terms_of(const Block& block) const;
  void clip(std::span<float> gradients);
  void find_trust(std::span<float> gradients, const TrainedBuffers& trained);
  bool gather_weights(std::span<float> weights, bool finite);  // whether all ranks' are finite

  Communicator& comm_;
  Optimizer& optimizer_;
  std::vector<LayerSlot> layers_;
  std::optional<double> clip_norm_;
  bool decays_vectors_;
  StateSharing sharing_;
  LayerNorms norms_;
  std::vector<double> trust_;  // trust ratio of each layer
};

}  // namespace dlflow::runtime
