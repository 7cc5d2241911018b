#include "runtime/train/state_snapshot.h"

#include <algorithm>
#include <utility>

namespace dlflow::runtime {

void StateSnapshot::take(TrainingState state, CheckpointInfo info, std::span<const float> weights,
                         ModelState::OptimizerContent optimizer, CompressionState unsent) {
  state_ = std::move(state);
  info_ = std::move(info);
  unsent_ = std::move(unsent);
  optimizer_.clear();
  gathered_ = std::move(optimizer.gathered);
  const bool is_gathered = !gathered_.empty();  // either all buffers or none
  size_t floats = weights.size();
  for (const NamedBuffer& buffer : optimizer.buffers) {
    if (!is_gathered) floats += buffer.values.size();
  }
  if (memory_.size() != floats) memory_ = HugeBuffer(floats);
  std::span<float> memory = memory_.floats();
  const auto copy = [&](std::span<const float> values) {
    const std::span<float> place = memory.first(values.size());
    memory = memory.subspan(values.size());
    std::ranges::copy(values, place.begin());
    return place;
  };
  weights_ = copy(weights);
  for (size_t i = 0; i < optimizer.buffers.size(); ++i) {
    const NamedBuffer& buffer = optimizer.buffers[i];
    optimizer_.push_back({buffer.name, is_gathered ? gathered_[i].floats() : copy(buffer.values)});
  }
}

std::filesystem::path StateSnapshot::write(const std::filesystem::path& folder, size_t keep) {
  std::filesystem::path path = save_training(
      folder, keep, {layout_, state_, info_, weights_, optimizer_, unsent_->tensors()});
  gathered_.clear();
  unsent_.reset();
  return path;
}

}  // namespace dlflow::runtime
