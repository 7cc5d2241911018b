#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/background_save.h"
#include "runtime/comm/communicator.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/settings/checkpoint_policy.h"
#include "runtime/train/compression_state.h"
#include "runtime/train/model_state.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {

/// A copy of a checkpoint's content, which can be written while training changes the original. Its
/// memory, as large as the weights and the optimizer's state, is reused.
class StateSnapshot {
 public:
  /// `layout` must outlive this.
  explicit StateSnapshot(const WeightLayout& layout) : layout_(layout) {}

  /// Copies `weights` and the buffers of `optimizer` that training will change; moves the rest.
  /// Runs at the speed of memory, except for the first time.
  void take(TrainingState state, CheckpointInfo info, std::span<const float> weights,
            ModelState::OptimizerContent optimizer, CompressionState unsent);

  /// Saves the last copy by save_training and releases it. May be called by another thread.
  std::filesystem::path write(const std::filesystem::path& folder, size_t keep);

 private:
  const WeightLayout& layout_;
  TrainingState state_;
  CheckpointInfo info_;
  HugeBuffer memory_;
  std::span<float> weights_;
  std::vector<BufferCopy> optimizer_;
  std::vector<HugeBuffer> gathered_;
  std::optional<CompressionState> unsent_;
};

/// The checkpoints of one training run: whether one is due, the newest valid one, and the next.
class Checkpoints {
 public:
  /// `comm` and `layout` must outlive this.
  Checkpoints(Communicator& comm, std::filesystem::path folder, CheckpointPolicy policy,
              const WeightLayout& layout);

  /// Returns the newest valid checkpoint, the same on every rank; nothing in a new folder.
  /// Collective: rank 0 chooses it and prints which newer ones it skipped.
  std::optional<Checkpoint> newest();

  /// Returns the state in `checkpoint`. `now` is the state that this run would save: throws
  /// Error{InvalidInput} if the checkpoint belongs to another run. Rank 0 prints each reason why
  /// this run will not end with the bits of an uninterrupted one.
  TrainingState state_in(const Checkpoint& checkpoint, const TrainingState& now,
                         const std::string& model) const;

  /// Whether one is due by this rank's clock, if the policy counts seconds.
  bool due_by_clock() const;

  /// \param due_somewhere  due_by_clock() of rank 0
  bool due(Position position, uint64_t steps_done, bool epoch_ends, bool due_somewhere) const;

  /// The first step after `steps_done` at which one is due, if the policy counts steps; else
  /// UINT64_MAX.
  uint64_t next_due(uint64_t steps_done) const;

  /// Begins a save on rank 0: waits until the previous one is written, copies the arguments, and
  /// leaves the copy to a thread. With `is_last`, it is written before this returns. Throws like
  /// save_checkpoint, if this or the previous one could not be written.
  void save(TrainingState state, CheckpointInfo info, std::span<const float> weights,
            ModelState::OptimizerContent optimizer, CompressionState unsent, bool is_last);

  /// Throws like save_checkpoint if the save under way has failed. Never waits.
  void look() { saving_.look(); }

  /// Waits until the last one is written. Throws like save_checkpoint.
  void finish();

  /// The path of the last checkpoint that was read or completely written; on rank 0 only, once one
  /// exists.
  const std::filesystem::path& last() const {
    return saving_.last().empty() ? resumed_ : saving_.last();
  }

 private:
  Communicator& comm_;
  std::filesystem::path folder_;
  CheckpointPolicy policy_;
  std::filesystem::path resumed_;
  std::chrono::steady_clock::time_point last_save_ = std::chrono::steady_clock::now();
  StateSnapshot snapshot_;
  BackgroundSave saving_;  // reads the snapshot, so it must be destroyed first
};

}  // namespace dlflow::runtime
