#pragma once

#include "runtime/train/batches.h"
#include "runtime/train/recording.h"
#include "runtime/train/step_computation.h"
#include "runtime/train/step_plan.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {

/// A worker on the CPU. The ranks of a team may have the state of the model in common.
class CpuWorker final : public Worker, public OwnUpdates {
 public:
  /// Collective over all ranks, `comm`; what is given must outlive this.
  CpuWorker(Communicator& comm, const Role& role, const TrainingJob& job, const TrainingData& data,
            const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  OwnStep step() override;
  OwnUpdates* own_updates() override { return this; }

  const WeightLayout& layout() const override { return computation_.layout(); }
  size_t global_batch() const override { return division_.global_batch; }
  uint64_t steps_per_epoch() const override { return batches_.steps_per_epoch(); }
  std::string arithmetic() const override { return computation_.arithmetic(); }
  void restore(const Checkpoint& checkpoint, uint64_t updates) override;
  void seek(uint64_t epoch, uint64_t step) override { batches_.seek(epoch, step); }
  std::optional<Divergence> divergence() const override { return computation_.divergence(); }
  void finish_update(uint64_t steps) override { computation_.finish_update(steps); }
  std::span<const float> weights() override { return computation_.state().result(); }
  ModelState::OptimizerContent optimizer_content() override;
  Inference inference() override { return computation_.inference(); }
  StepImages* validation_images() override { return batches_.validation_images(); }
  CompressedSum* compressed() override { return computation_.compressed(); }
  std::optional<double> take_noise_scale() override { return computation_.take_noise_scale(); }
  void describe(Json& summary) const override;

  StepReport wishes() override { return hooks_.wishes(); }
  std::span<const float> gradient() override { return computation_.gradient(); }
  std::vector<std::span<float>> state() override;
  void update(size_t first, std::span<const float> gradient, double rate) override;
  uint64_t updates() override { return computation_.state().updates(); }
  void set_updates(uint64_t updates) override { computation_.state().set_updates(updates); }

 private:
  ReportSlot::Sums skip();
  void tell(const StepPlan& plan, const ReportSlot::Sums& sums);

  const Role role_;
  Recording& recording_;
  WorkerHooks hooks_;

  // In this order: the division says which leaves there are, the computation which of them this
  // rank has; their batches make steps, which are planned.
  Division division_;
  StepComputation computation_;
  Batches batches_;
  StepPlanner planner_;
};

}  // namespace dlflow::runtime
