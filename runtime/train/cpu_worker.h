#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/nn/arithmetic.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/network_set.h"
#include "runtime/train/node_cache.h"
#include "runtime/train/noise_meter.h"
#include "runtime/train/passes.h"
#include "runtime/train/recording.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {

/// On the CPU; ranks of a team may have the state of the model in common.
class CpuWorker final : public Worker {
 public:
  /// Collective over all ranks, `comm`; what is given must outlive this.
  CpuWorker(Communicator& comm, const Role& role, const TrainingJob& job, const TrainingData& data,
            const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  const WeightLayout& layout() const override { return *networks_.layout(); }
  size_t global_batch() const override { return division_.global_batch; }
  uint64_t steps_per_epoch() const override { return steps_per_epoch_; }
  std::string arithmetic() const override;
  void restore(const Checkpoint& checkpoint, uint64_t updates) override {
    state_.restore(checkpoint, updates);
  }
  void seek(uint64_t epoch, uint64_t step) override;
  std::optional<Divergence> divergence() const override { return divergence_; }
  void finish_update(uint64_t steps) override;
  std::span<const float> weights() override { return state_.weights(); }
  ModelState::OptimizerContent optimizer_content() override { return state_.optimizer_content(); }
  Inference inference() override;
  StepImages* validation_images() override {
    return cache_ ? &cache_->validation() : job_.images.get();
  }
  CompressedSum* compressed() override { return reducer_.compressed(); }
  std::optional<double> take_noise_scale() override { return noise_.take(); }
  void describe(Json& summary) const override;

  OwnStep step() override;
  Report wishes() override { return hooks_.wishes(); }
  std::span<const float> gradient() override;
  std::vector<std::span<float>> state() override;
  void update(size_t first, std::span<const float> gradient, double rate) override;
  uint64_t updates() override { return state_.updates(); }
  void set_updates(uint64_t updates) override { state_.set_updates(updates); }

 private:
  NetworkSet make_networks() const;
  void tell_idle_ranks() const;
  void tell_if_rough_is_not_faster() const;
  size_t leaves_of_team() const;
  size_t first_leaf() const { return role_.index * leaves_of_team() + reducer_.first_leaf(); }
  size_t report_index() const { return layout().parameters().size(); }
  Compute compute() const;
  ReducerOptions reducer_options();
  PassesOptions passes_options() const;
  NoiseMeter::Setup noise_setup() const;
  std::unique_ptr<NodeCache> make_cache(const TrainingData& data) const;
  LoaderOptions loader_options(const Normalization& normalization) const;

  Batch load();
  Report compute_step(const Batch& batch);
  Report skip_step();
  std::optional<float> mean_loss(float reported, size_t samples) const;
  void begin_update();
  void consume(size_t first, std::span<const float> sums);
  void require_finite_update();
  void report(size_t leaf, float loss);
  std::vector<std::span<const float>> gradients();
  Timed span(Timeline::Row row, std::string_view name) {
    return {recording_.timeline(), row, name};
  }

  Communicator& comm_;
  Role role_;
  const TrainingJob& job_;
  Recording& recording_;
  WorkerHooks hooks_;
  Division division_;
  NetworkSet networks_;
  std::optional<NetworkSet> inference_;
  Reducer reducer_;
  NoiseMeter noise_;
  std::unique_ptr<Passes> passes_;
  ModelState state_;
  std::unique_ptr<NodeCache> cache_;
  std::unique_ptr<EpochOrder> order_;
  Loader loader_;
  std::chrono::duration<float> data_wait_{0};  // of this step
  uint64_t steps_per_epoch_;
  Schedule schedule_;
  HugeBuffer pushed_;         // the gradient of a step whose update others make
  uint64_t step_ = 0;         // of the run, from 0; the one that is under way or was last
  size_t samples_ = 0;        // in it, over all ranks
  double learning_rate_ = 0;  // of it
  std::optional<Divergence> divergence_;
};

}  // namespace dlflow::runtime
