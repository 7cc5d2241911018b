#pragma once

#include "runtime/cooperation/cooperation.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/train/cpu_worker.h"

namespace dlflow::runtime {

/// A CPU worker that steps without the other teams: a cooperation decides when they meet. Each
/// update ends with its step. If it leaves a weight NaN or infinite, the loss becomes NaN, which
/// all ranks notice when they next meet.
class LoneWorker final : public CpuWorker, public OwnUpdates {
 public:
  /// Collective over all ranks of `comm`; the arguments must outlive this.
  LoneWorker(Communicator& comm, const Role& role, const TrainingJob& job, const TrainingData& data,
             const Normalization& normalization, Recording& recording, WorkerHooks hooks);

  OwnStep step() override;

  StepReport wishes() override { return wishes_of_rank(); }
  std::span<const float> gradient() override { return pushed_.floats(); }
  std::vector<std::span<float>> state() override;
  size_t num_trained() override { return layout().trainable_size(); }
  void update(size_t first, std::span<const float> gradient, double rate) override;
  uint64_t updates() override { return CpuWorker::updates(); }
  void set_updates(uint64_t updates) override { computation().state().set_updates(updates); }

 private:
  /// \param keep  takes the sums of gradients if another rank makes the update
  static Team team_of(const Role& role, StepComputation::Consume keep);
  ReportSlot::Sums compute(const StepPlan& plan, const LocalBatch& batch);
  ReportSlot::Sums skip();
  void keep(size_t first, std::span<const float> sums);

  const bool makes_updates_;
  HugeBuffer pushed_;  // the gradient of a step, if another rank makes the update
};

}  // namespace dlflow::runtime
