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

}  // namespace dlflow::runtime
