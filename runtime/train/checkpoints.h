#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/checkpoint/background_save.h"
#include "runtime/comm/communicator.h"
#include "runtime/settings/checkpoint_policy.h"
#include "runtime/train/state_snapshot.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {

/// The checkpoints of one training run: when one is due, the newest to go on from, and the next.
class Checkpoints {
 public:
  /// `comm` and `layout` must outlive this.
  Checkpoints(Communicator& comm, std::filesystem::path folder, CheckpointPolicy policy,
              const WeightLayout& layout);

  /// The newest that is whole, the same on every rank; none in a new folder. Collective: rank 0
  /// chooses it, and tells people which newer ones it passed over.
  std::optional<Checkpoint> newest();

  /// The state in it. `now` is what this run would save: throws Error{InvalidInput} if the
  /// checkpoint is of another run; rank 0 tells people where it goes on, and what will keep this
  /// run from ending with the bits of an uninterrupted one.
  TrainingState state_in(const Checkpoint& checkpoint, const TrainingState& now,
                         const std::string& model) const;

  /// By this rank's clock, where the policy counts seconds.
  bool due_by_clock() const;

  /// `due_somewhere`: whether due_by_clock() on rank 0.
  bool due(Position position, uint64_t steps_done, bool epoch_ends, bool due_somewhere) const;

  /// The first step after `steps_done` after which one is due, where the policy counts steps; else
  /// UINT64_MAX.
  uint64_t next_due(uint64_t steps_done) const;

  /// Begins one, on rank 0: copies what is given, once the one before is written, and leaves the
  /// copy to a thread. `is_last`: nothing is left to do meanwhile, and it is written at once.
  /// Throws as save_checkpoint, if it or the one before could not be written.
  void save(TrainingState state, CheckpointInfo info, std::span<const float> weights,
            ModelState::OptimizerContent optimizer, CompressionState unsent, bool is_last);

  /// Throws as save_checkpoint if the one under way could not be written. Never waits.
  void look() { saving_.look(); }

  /// Waits until the last one is written. Throws as save_checkpoint.
  void finish();

  /// The path of the last one that was read, or is known to be written; on rank 0 only, once there
  /// is one.
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
  BackgroundSave saving_;  // reads the snapshot: it ends before that does
};

}  // namespace dlflow::runtime
