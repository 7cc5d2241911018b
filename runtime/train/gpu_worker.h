#pragma once

#include <optional>
#include <set>
#include <vector>

#include "runtime/gpu/replica.h"
#include "runtime/train/batches.h"
#include "runtime/train/recording.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {

/// A worker on this rank's GPU, where weights, gradients and velocities stay
/// (runtime/gpu/replica.h). What goes to checkpoints is what a CPU puts there.
class GpuWorker final : public Worker {
 public:
  /// Collective over all ranks, `comm`; what is given must outlive this. Throws what GpuReplica
  /// throws.
  GpuWorker(Communicator& comm, const TrainingJob& job, const TrainingData& data,
            const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  const WeightLayout& layout() const override { return replica_.layout(); }
  size_t global_batch() const override { return division_.global_batch; }
  uint64_t steps_per_epoch() const override { return batches_.steps_per_epoch(); }
  std::string arithmetic() const override;
  void restore(const Checkpoint& checkpoint, uint64_t updates) override;
  void seek(uint64_t epoch, uint64_t step) override {
    staged_.reset();
    batches_.seek(epoch, step);
  }
  std::optional<Divergence> divergence() const override { return {}; }
  void finish_update(uint64_t steps) override;
  std::span<const float> weights() override { return weights_; }
  ModelState::OptimizerContent optimizer_content() override;
  Inference inference() override;
  void describe(Json& summary) const override;

  /// Sums over all ranks. Waits for the end of the update, and throws Diverged if it left a weight
  /// that is no number.
  OwnStep step() override;
  uint64_t updates() override { return updates_; }

 private:
  /// The samples of a step that are on the GPU, or on their way.
  struct Staged {
    uint64_t epoch = 0, step = 0;
    size_t global_samples = 0;
    float wait_s = 0;  ///< how long they were waited for
  };

  Staged stage_next();
  void stage_ahead(const Staged& current);
  std::set<size_t> batch_sizes(size_t num_validation) const;
  std::string velocity_name() const;
  DlflowGpuSgd sgd(uint64_t step) const;
  [[noreturn]] void fail_update(uint64_t steps);

  Communicator& comm_;
  const TrainingJob& job_;
  Recording& recording_;
  WorkerHooks hooks_;
  Division division_;
  GpuReplica replica_;
  std::vector<float> weights_, velocity_;  // as they were when they were last fetched
  Batches batches_;
  std::optional<Staged> staged_;  // for the next step, while the one before it was computed
  Schedule schedule_;
  uint64_t updates_ = 0;  // since the training began, whatever runs it was in
};

}  // namespace dlflow::runtime
