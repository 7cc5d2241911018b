#include "runtime/train/checkpoints.h"

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/comm/communicator.h"
#include "runtime/train/node_view.h"
#include "runtime/train/settings_kept.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// Throws unless `checkpoint`, which holds `saved`, belongs to the run that would now save `now`.
void require_same_run(const std::filesystem::path& path, const Checkpoint& checkpoint,
                      const TrainingState& saved, const TrainingState& now,
                      const std::string& model) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Errc::InvalidInput,
                path.string() + " is of a run with " + what +
                    "; continue with its settings, or train into another folder "
                    "of checkpoints");
  };
  if (checkpoint.info.model != model) refuse("another model");
  if (saved.seed != now.seed) refuse("seed " + std::to_string(saved.seed));
  if (saved.optimizer != now.optimizer) refuse("the optimizer " + saved.optimizer);
  const std::vector<std::string> changes = changed_settings(saved.settings, now.settings);
  if (!changes.empty()) refuse(join(changes, "; "));
  if (saved.train_samples != now.train_samples) {
    refuse(std::to_string(saved.train_samples) + " training samples");
  }
  if (!saved.data.empty() && saved.data != now.data) refuse("other training data");
  if (saved.normalization != now.normalization) refuse("another normalisation");
}

}  // namespace

Checkpoints::Checkpoints(Communicator& comm, std::filesystem::path folder, CheckpointPolicy policy,
                         const WeightLayout& layout)
    : comm_(comm),
      folder_(std::move(folder)),
      policy_(policy),
      snapshot_(layout),
      saving_(!comm.shares_cores()) {}

std::optional<Checkpoint> Checkpoints::newest() {
  const Activity activity(comm_, "reads a checkpoint");
  LatestCheckpoint latest;
  if (comm_.rank() == 0) {
    latest = latest_valid(folder_);
    for (const std::string& reason : latest.rejected) {
      std::fprintf(stderr, "checkpoint skipped: %s\n", escaped_lines(reason).c_str());
    }
  }
  resumed_ = broadcast_text(comm_, latest.path.value_or("").string());
  if (resumed_.empty()) return {};
  return load_shared_checkpoint(comm_, resumed_, comm_.rank() == 0);
}

TrainingState Checkpoints::state_in(const Checkpoint& checkpoint, const TrainingState& now,
                                    const std::string& model) const {
  const TrainingState saved = training_state_of(checkpoint);
  require_same_run(resumed_, checkpoint, saved, now, model);
  if (comm_.rank() == 0) {
    for (const std::string& change : changes_of_bits(saved, now)) {
      std::fprintf(stderr, "from here on, the bits differ from an uninterrupted run: %s\n",
                   change.c_str());
    }
  }
  return saved;
}

bool Checkpoints::due_by_clock() const {
  return policy_.unit == CheckpointPolicy::Unit::Seconds &&
         Clock::now() - last_save_ >= std::chrono::seconds(policy_.every);
}

bool Checkpoints::due(Position position, uint64_t steps_done, bool epoch_ends,
                      bool due_somewhere) const {
  switch (policy_.unit) {
    case CheckpointPolicy::Unit::Epochs:
      return epoch_ends && position.epoch % policy_.every == 0;
    case CheckpointPolicy::Unit::Steps:
      return steps_done % policy_.every == 0;
    case CheckpointPolicy::Unit::Seconds:
      return due_somewhere;
  }
  return false;
}

uint64_t Checkpoints::next_due(uint64_t steps_done) const {
  if (policy_.unit != CheckpointPolicy::Unit::Steps) return UINT64_MAX;
  return (steps_done / policy_.every + 1) * policy_.every;
}

void Checkpoints::save(TrainingState state, CheckpointInfo info, std::span<const float> weights,
                       ModelState::OptimizerContent optimizer, CompressionState unsent,
                       bool is_last) {
  last_save_ = Clock::now();
  if (comm_.rank() != 0) return;
  const Activity activity(comm_, "saves a checkpoint");
  saving_.finish();
  snapshot_.take(std::move(state), std::move(info), weights, std::move(optimizer),
                 std::move(unsent));
  if (is_last) return saving_.run([this] { return snapshot_.write(folder_, policy_.keep); });
  saving_.start([this] {
    omp_set_num_threads(1);  // for this thread only: oneDNN's threads would compete with training
    return snapshot_.write(folder_, policy_.keep);
  });
}

void Checkpoints::finish() {
  const Activity activity(comm_, "saves a checkpoint");
  saving_.finish();
}

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
