#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/train/settings.h"
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

  /// Writes one, on rank 0. Throws as save_checkpoint.
  void save(const TrainingState& state, const CheckpointInfo& info, std::span<const float> weights,
            std::span<const NamedBuffer> optimizer, const FurtherTensors& further = {});

  /// The path of the last one that was read or written; on rank 0 only, once one was.
  const std::filesystem::path& last() const { return last_; }

 private:
  Communicator& comm_;
  std::filesystem::path folder_;
  CheckpointPolicy policy_;
  const WeightLayout& layout_;
  std::filesystem::path last_;
  std::chrono::steady_clock::time_point last_save_ = std::chrono::steady_clock::now();
};

}  // namespace dlflow::runtime
