#pragma once

#include "runtime/cooperation/cooperation.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/train/cpu_worker.h"

namespace dlflow::runtime {

/// A worker on the CPU whose steps are not those of all ranks: a cooperation says when they meet.
/// An update is over when its step is, and a loss that is no number says, when all meet, that it
/// left a weight that is none.
class LoneWorker final : public CpuWorker, public OwnUpdates {
 public:
  /// Collective over all ranks, `comm`; what is given must outlive this.
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
  /// \param keep  takes the sums of gradients where others make the update
  static Team team_of(const Role& role, StepComputation::Consume keep);
  ReportSlot::Sums compute(const StepPlan& plan, const LocalBatch& batch);
  ReportSlot::Sums skip();
  void keep(size_t first, std::span<const float> sums);

  const bool makes_updates_;
  HugeBuffer pushed_;  // the gradient of a step whose update others make
};

}  // namespace dlflow::runtime
