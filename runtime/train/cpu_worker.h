#pragma once

#include "runtime/train/batches.h"
#include "runtime/train/division.h"
#include "runtime/train/recording.h"
#include "runtime/train/step_computation.h"
#include "runtime/train/step_plan.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {

/// A CPU worker that takes every step with all other ranks. Their gradients are summed while the
/// backward pass runs (runtime/reduce/reducer.h). Every rank then makes the same update, or updates
/// its part of a shared state. A sum may continue into the next step; readers of the weights wait
/// for it.
class CpuWorker : public Worker {
 public:
  /// Collective over all ranks of `comm`; the arguments must outlive this.
  CpuWorker(Communicator& comm, const TrainingJob& job, const TrainingData& data,
            const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  OwnStep step() override;

  const WeightLayout& layout() const override { return computation_.layout(); }
  size_t global_batch() const override { return division_.global_batch; }
  uint64_t steps_per_epoch() const override { return batches_.steps_per_epoch(); }
  std::string arithmetic() const override { return computation_.arithmetic(); }
  void restore(const Checkpoint& checkpoint, uint64_t updates) override {
    computation_.state().restore(checkpoint, updates);
  }
  uint64_t updates() override { return computation_.state().updates(); }
  void seek(uint64_t epoch, uint64_t step) override { batches_.seek(epoch, step); }
  std::optional<Divergence> divergence() const override { return computation_.divergence(); }
  void finish_update(uint64_t steps) override { computation_.finish_update(steps); }
  std::span<const float> weights() override { return computation_.state().result(); }
  ModelState::OptimizerContent optimizer_content() override {
    return computation_.state().optimizer_content();
  }
  Inference inference() override { return computation_.inference(); }
  CompressedSum* compressed() override { return computation_.compressed(); }
  std::optional<double> take_noise_scale() override { return computation_.take_noise_scale(); }
  void describe(Json& summary) const override {
    summary["optimizer_bytes_per_rank"] = computation_.state().optimizer_bytes();
  }

  const Division& division() const { return division_; }
  IndexRange leaves() const { return computation_.leaves(); }

 protected:
  /// The ranks that take each step with this one.
  struct Team {
    StepComputation::Team of_computation;
    size_t num_teams = 1;
    bool own_mean = false;  ///< see Teams
    bool computes = true;   ///< false: takes no steps
  };
  CpuWorker(Communicator& comm, const Team& team, const TrainingJob& job, const TrainingData& data,
            const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  /// Makes and records a step. \param compute  (StepPlan, LocalBatch) -> the sums of the team
  /// \param mean_loss  (StepPlan, loss that the team reports) -> its mean, or nothing
  template <typename Compute, typename MeanLoss>
  OwnStep make_step(const Compute& compute, const MeanLoss& mean_loss);

  ReportSlot::OfRank of_rank() { return {hooks_.wishes(), batches_.last_wait_s()}; }
  void tell(const StepPlan& plan, const ReportSlot::Sums& sums, std::optional<float> mean_loss);

  StepReport wishes_of_rank() { return hooks_.wishes(); }
  StepComputation& computation() { return computation_; }
  Recording& recording() { return recording_; }

 private:
  const double num_ranks_;  // in the team
  Recording& recording_;
  WorkerHooks hooks_;

  // The order matters: the division defines the leaves, the computation selects this rank's leaves,
  // and the batches of these make the steps that the planner plans.
  Division division_;
  StepComputation computation_;
  Batches batches_;
  StepPlanner planner_;
};

template <typename Compute, typename MeanLoss>
OwnStep CpuWorker::make_step(const Compute& compute, const MeanLoss& mean_loss) {
  recording_.begin_step();
  OwnStep own;
  {
    const Timed timed(recording_.timeline(), Timeline::Row::Step, "step");
    const LocalBatch batch = batches_.load();
    const StepPlan plan = planner_.plan(batch);
    const ReportSlot::Sums sums = compute(plan, batch);
    tell(plan, sums, mean_loss(plan, sums.report.loss));
    own = {sums.report, plan.rate_among_ranks};
  }
  recording_.end_step();
  return own;
}

}  // namespace dlflow::runtime
