#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/train/compression_state.h"
#include "runtime/train/model_state.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {

/// A copy of what a checkpoint holds, so that it can be written while training changes the
/// original. Its memory, as much as weights and what the optimizer keeps for them, is used again.
class StateSnapshot {
 public:
  /// `layout` must outlive this.
  explicit StateSnapshot(const WeightLayout& layout) : layout_(layout) {}

  /// Copies `weights` and what of `optimizer` lies with the training; the rest is taken over. As
  /// fast as memory is, but for the first time.
  void take(TrainingState state, CheckpointInfo info, std::span<const float> weights,
            ModelState::OptimizerContent optimizer, CompressionState unsent);

  /// save_training of the last copy, which is used up by that. Another thread may call it.
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

}  // namespace dlflow::runtime
