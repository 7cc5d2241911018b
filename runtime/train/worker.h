#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cooperation/cooperation.h"
#include "runtime/data/loader.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/optim/schedule.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/model_state.h"
#include "runtime/train/network_set.h"
#include "runtime/train/node_cache.h"
#include "runtime/train/noise_meter.h"
#include "runtime/train/passes.h"
#include "runtime/train/recording.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"

namespace dlflow::runtime {

/// What this rank is asked for and tells about, step by step.
struct WorkerHooks {
  std::function<Report()> wishes;  ///< what its report says beside the loss; called in every step
  /// A step is done, from 0: samples of all ranks, loss and wait for data (the mean) of the team.
  std::function<void(uint64_t step, size_t samples, float loss, double data_wait_s)> stepped;
};

/// One rank's part of the training: its samples, networks, gradients, and its state of the model,
/// which ranks of a team may have in common.
class Worker final : public Learner {
 public:
  /// Collective over the team; what is given must outlive this. The state is filled for `job`'s
  /// seed.
  Worker(const TrainingJob& job, const Role& role, const TrainingData& data,
         const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  const std::shared_ptr<const WeightLayout>& layout() const { return networks_.layout(); }
  size_t global_batch() const { return global_batch_; }
  uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  ModelState& model_state() { return state_; }
  NoiseMeter& noise() { return noise_; }
  NodeCache* cache() { return cache_.get(); }  ///< null: images are read from where they lie

  /// What gradients are compressed by, or null.
  CompressedSum* compressed() { return reducer_.compressed(); }

  /// The next step is step `step` of epoch `epoch`.
  void seek(uint64_t epoch, uint64_t step) {
    if (cache_) cache_->start(epoch, step);
    loader_.seek(epoch, step);
  }

  OwnStep step() override;
  std::span<const float> gradient() override;
  std::vector<std::span<float>> state() override;
  void update(size_t first, std::span<const float> gradient, double rate) override;
  uint64_t updates() override { return state_.updates(); }
  void set_updates(uint64_t updates) override { state_.set_updates(updates); }

  /// Before the weights are looked at as a whole, after `steps` of the run. Throws Diverged if one
  /// of them is no number.
  void finish_update(uint64_t steps);

  /// The number, from 1, of the first step whose loss was no number on this rank.
  std::optional<uint64_t> diverged_at() const { return diverged_at_; }

 private:
  size_t leaves_of_team() const;
  size_t num_leaves() const { return role_.num_teams * leaves_of_team(); }
  size_t largest_leaf() const { return (global_batch_ + num_leaves() - 1) / num_leaves(); }
  size_t report_index() const { return layout()->parameters().size(); }
  Compute compute() const;
  ReducerOptions reducer_options();
  NoiseMeter::Setup noise_setup() const;
  std::unique_ptr<NodeCache> make_cache(const TrainingData& data) const;
  LoaderOptions loader_options(const Normalization& normalization) const;
  Schedule schedule() const;

  Batch load();
  Report compute_step(const Batch& batch);
  void begin_update();
  void consume(size_t first, std::span<const float> sums);
  void require_finite_update();
  void report(size_t leaf, float loss);
  std::vector<std::span<const float>> gradients();
  Timed span(Timeline::Row row, std::string_view name) {
    return {recording_.timeline(), row, name};
  }

  const TrainingJob& job_;
  Role role_;
  Recording& recording_;
  WorkerHooks hooks_;
  size_t global_batch_;
  NetworkSet networks_;
  Reducer reducer_;
  NoiseMeter noise_;
  std::unique_ptr<Passes> passes_;
  ModelState state_;
  std::unique_ptr<NodeCache> cache_;
  Loader loader_;
  std::chrono::duration<float> data_wait_{0};  // of this step
  uint64_t steps_per_epoch_;
  HugeBuffer pushed_;         // the gradient of a step whose update others make
  uint64_t step_ = 0;         // of the run, from 0; the one that is under way or was last
  size_t samples_ = 0;        // in it, over all ranks
  double learning_rate_ = 0;  // of it
  std::optional<uint64_t> diverged_at_;
};

}  // namespace dlflow::runtime
