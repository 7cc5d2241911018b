#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/normalization.h"
#include "runtime/nn/weight_layout.h"

/// Saves the state of a training run between two steps to a checkpoint, and loads it, bit for bit.
namespace dlflow::runtime {

/// The progress of a training: `step` steps of epoch `epoch` are done.
struct Position {
  uint64_t epoch = 0;
  uint64_t step = 0;
  bool operator==(const Position&) const = default;
};

/// The mean loss over samples. All samples count equally, so a smaller last step counts less.
struct MeanLoss {
  double sum = 0;
  uint64_t samples = 0;

  /// `loss`: the mean over `count` samples.
  void add(double loss, uint64_t count) {
    sum += loss * double(count);
    samples += count;
  }
  double mean() const { return samples > 0 ? sum / double(samples) : 0; }
  bool operator==(const MeanLoss&) const = default;
};

/// The state of a run besides weights and optimizer buffers, to resume from or to compare.
struct TrainingState {
  Position position;
  uint64_t seed = 0;
  size_t global_batch = 0;
  size_t train_samples = 0;
  Normalization normalization;
  std::string reduction;     ///< "exact, 8 leaves": how gradients are added
  std::string arithmetic;    ///< build and processor that computed it (runtime/nn/arithmetic.h)
  std::string optimizer;     ///< "adamw"
  uint64_t updates = 0;      ///< made by the optimizer
  MeanLoss epoch_loss = {};  ///< over the epoch's samples so far, as measured on rank 0
  uint64_t epochs = 0;       ///< that the learning rate is planned for; 0: it needs none
  std::string data = {};     ///< identity of the training data (TrainingJob::data_identity)
  Json settings = Json::object();         ///< runtime/train/settings_kept.h
  Json rules = Json::object();            ///< EpochRules::state()
  std::vector<std::string> classes = {};  ///< names, if the data has any
  std::string tokenizer = {};             ///< Dataset::tokenizer
  std::vector<std::string> origin = {};   ///< lines of kColumnNames
  bool operator==(const TrainingState&) const = default;
};

/// Further tensor files of a checkpoint, by name.
using FurtherTensors = std::map<std::string, std::vector<TensorView>>;

/// A buffer of an optimizer: the trainable floats of a layout; or all of its floats, for trained
/// weights that differ from the result.
struct NamedBuffer {
  std::string name;  ///< suffix to the parameter's name: ".m"
  std::span<const float> values;
};

/// A copy of such a buffer.
struct BufferCopy {
  std::string name;
  std::span<float> values;
};

/// The content of one checkpoint, by reference. The referenced data must outlive it.
struct TrainingCopy {
  const WeightLayout& layout;
  const TrainingState& state;
  const CheckpointInfo& info;
  std::span<float> weights;  ///< in `layout`
  std::span<const BufferCopy> optimizer;
  FurtherTensors further = {};
};

/// Saves `training` as a checkpoint; puts its copies in plain order. Tensors have the layout's
/// names, with the buffer's name as suffix for the optimizer's.
std::filesystem::path save_training(const std::filesystem::path& folder, size_t keep,
                                    const TrainingCopy& training);

/// The state in a checkpoint. Throws Error{Corrupt} if it was not written by save_training.
TrainingState training_state_of(const Checkpoint& checkpoint);

/// Returns the reasons why a run that resumes from `saved` as `now` will not end with the bits of
/// an uninterrupted one; empty if there are none. Positions are ignored.
std::vector<std::string> changes_of_bits(const TrainingState& saved, const TrainingState& now);

/// Throws Error like load_weights, before any memory is allocated for `model`, whose text comes
/// from a checkpoint.
void require_weights(const Checkpoint& checkpoint, const Model& model);

/// Copies tensors of a checkpoint: its weights, or the optimizer's buffer `name` (NamedBuffer).
/// Throws Error{NotFound} or Error{InvalidInput}
/// naming the tensor that is missing or does not fit.
void load_weights(const Checkpoint& checkpoint, const WeightLayout& layout,
                  std::span<float> weights);
void load_optimizer_buffer(const Checkpoint& checkpoint, const WeightLayout& layout,
                           const std::string& name, std::span<float> buffer);

}  // namespace dlflow::runtime
