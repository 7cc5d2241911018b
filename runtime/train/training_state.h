#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/normalization.h"
#include "runtime/nn/weight_layout.h"

/// What a training run is made of between two steps, and how it goes to a checkpoint and back, bit
/// for bit.
namespace dlflow::runtime {

/// How far training has come: `step` steps of epoch `epoch` are done.
struct Position {
  uint64_t epoch = 0;
  uint64_t step = 0;
  bool operator==(const Position&) const = default;
};

/// What besides weights and velocities a run continues with, or must agree with.
struct TrainingState {
  Position position;
  uint64_t seed = 0;
  size_t global_batch = 0;
  size_t train_samples = 0;
  Normalization normalization;
  std::string reduction;   ///< "exact, 8 leaves": how gradients are added
  std::string arithmetic;  ///< of the process that computed it (runtime/nn/arithmetic.h)
  bool operator==(const TrainingState&) const = default;
};

/// The checkpoint of `weights` and `velocity` (both in `layout`; the latter has its trainable
/// floats only). Tensors are named as the layout names them.
std::filesystem::path save_training(const std::filesystem::path& folder, size_t keep,
                                    const WeightLayout& layout, const TrainingState& state,
                                    const CheckpointInfo& info, std::span<const float> weights,
                                    std::span<const float> velocity);

/// The state in a checkpoint. Throws Error{Corrupt} if it was not written by save_training.
TrainingState training_state_of(const Checkpoint& checkpoint);

/// What keeps a run that goes on from `saved` as `now` from ending with the bits of one that was
/// never interrupted; empty if nothing does. Their positions do not matter.
std::vector<std::string> changes_of_bits(const TrainingState& saved, const TrainingState& now);

/// Copies the tensors of a checkpoint to `weights` and, if given, `velocity`.
/// Throws Error{NotFound} or Error{InvalidInput} naming the tensor that is not there or does not
/// fit.
void load_tensors(const Checkpoint& checkpoint, const WeightLayout& layout,
                  std::span<float> weights, std::span<float> velocity = {});

}  // namespace dlflow::runtime
