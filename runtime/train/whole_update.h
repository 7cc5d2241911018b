#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/optim/optimizer.h"
#include "runtime/settings/update.h"
#include "runtime/train/layer_norms.h"

namespace dlflow::runtime {

/// The distribution of the weights and of the optimizer's state over ranks.
enum class StateSharing {
  Replicas,  ///< each rank all, for itself
  OneCopy,   ///< all ranks have it in common, in the memory of their node
  Shards,    ///< each rank all weights, but the optimizer's state of its blocks alone (ZeRO-1)
};

/// Weights, and what an optimizer keeps for them.
struct TrainedBuffers {
  std::span<float> weights;
  std::vector<std::span<float>> state;
  size_t state_begin = 0;  ///< the element that the first of `state` is for

  Elements part(size_t first, size_t count) const;
};

/// Updates that begin when the whole gradient is there: because its norm is clipped, because each
/// layer's norm counts, or because ranks have shards of the state. Ranks share the work out as far
/// as they share the state, and the norms in any case; the bits are the same whatever they share.
class WholeUpdate {
 public:
  /// What is given must outlive this.
  WholeUpdate(Communicator& comm, Optimizer& optimizer, std::vector<LayerSlot> layers,
              const UpdateSettings& settings, StateSharing sharing);

  /// The elements whose state this rank needs: with Shards its own blocks, else all.
  struct Extent {
    size_t first = 0, count = 0;
  };
  Extent extent_of(int rank) const;

  /// The elements that apply() updates on this rank.
  Extent updated_extent() const;

  /// Every layer takes the step that the optimizer was told to begin. `gradients` are changed; with
  /// OneCopy, all ranks have them in common, too. Collective; with OneCopy other ranks may not be
  /// through with their blocks. False if a weight is not a finite number now; with OneCopy, of this
  /// rank's blocks.
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
  std::vector<double> trust_;  // of each layer
};

}  // namespace dlflow::runtime
