#pragma once

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
#include "runtime/train/mean_loss.h"

/// The state of a training run between two steps, to a checkpoint and back, bit for bit.
namespace dlflow::runtime {

/// The progress of a training: `step` steps of epoch `epoch` are done.
struct Position {
  uint64_t epoch = 0;
  uint64_t step = 0;
  bool operator==(const Position&) const = default;
};

/// The state of a run besides weights and velocities: to continue with, or to agree with.
struct TrainingState {
  Position position;
  uint64_t seed = 0;
  size_t global_batch = 0;
  size_t train_samples = 0;
  Normalization normalization;
  std::string reduction;     ///< "exact, 8 leaves": how gradients are added
  std::string arithmetic;    ///< of the process that computed it (runtime/nn/arithmetic.h)
  std::string optimizer;     ///< "adamw"
  uint64_t updates = 0;      ///< that the optimizer has made
  MeanLoss epoch_loss = {};  ///< of the epoch's samples so far, as rank 0 knows it
  uint64_t epochs = 0;       ///< that the learning rate is planned for; 0: it does not matter
  std::string data = {};     ///< what the training data is known by (TrainingJob::data_identity)
  Json settings = Json::object();         ///< runtime/train/settings_kept.h
  Json rules = Json::object();            ///< EpochRules::state()
  std::vector<std::string> classes = {};  ///< their names, if the data has any
  std::string tokenizer = {};             ///< Dataset::tokenizer
  bool operator==(const TrainingState&) const = default;
};

/// Further files of tensors of a checkpoint, by name.
using FurtherTensors = std::map<std::string, std::vector<TensorView>>;

/// One of the buffers that an optimizer keeps: the trainable floats of a layout. Or all of its
/// floats: weights other than those of the result.
struct NamedBuffer {
  std::string name;  ///< what follows the parameter's name: ".m"
  std::span<const float> values;
};

/// A copy of such a buffer.
struct BufferCopy {
  std::string name;
  std::span<float> values;
};

/// A training at one step. What it refers to must outlive it.
struct TrainingCopy {
  const WeightLayout& layout;
  const TrainingState& state;
  const CheckpointInfo& info;
  std::span<float> weights;  ///< in `layout`
  std::span<const BufferCopy> optimizer;
  FurtherTensors further = {};
};

/// The checkpoint of `training`, whose copies are in plain order then. Tensors are named as the
/// layout names them, the optimizer's with the buffer's name behind.
std::filesystem::path save_training(const std::filesystem::path& folder, size_t keep,
                                    const TrainingCopy& training);

/// The state in a checkpoint. Throws Error{Corrupt} if it was not written by save_training.
TrainingState training_state_of(const Checkpoint& checkpoint);

/// What keeps a run that goes on from `saved` as `now` from ending with the bits of one that was
/// never interrupted; empty if nothing does. Their positions do not matter.
std::vector<std::string> changes_of_bits(const TrainingState& saved, const TrainingState& now);

/// Throws Error as load_weights, before any memory is taken for `model`, whose text a checkpoint
/// brings along.
void require_weights(const Checkpoint& checkpoint, const Model& model);

/// Copies the tensors of a checkpoint to `weights`, those of them that lie with the optimizer's as
/// `name`, and those that the optimizer keeps as `name` to `buffer`. Throws Error{NotFound} or
/// Error{InvalidInput} naming the tensor that is not there or does not fit.
void load_weights(const Checkpoint& checkpoint, const WeightLayout& layout,
                  std::span<float> weights);
void load_trained_weights(const Checkpoint& checkpoint, const WeightLayout& layout,
                          const std::string& name, std::span<float> weights);
void load_optimizer_buffer(const Checkpoint& checkpoint, const WeightLayout& layout,
                           const std::string& name, std::span<float> buffer);

}  // namespace dlflow::runtime
