#include "runtime/train/cpu_worker.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "runtime/nn/arithmetic.h"
#include "runtime/train/metrics_log.h"

namespace dlflow::runtime {
namespace {

/// Only exact mode can leave ranks idle: in fast mode every rank has a leaf.
void tell_idle_ranks(const TrainSettings& settings, int num_ranks) {
  if (!settings.precision.exact) return;
  const auto idle = idle_ranks(leaf_settings(settings, num_ranks), size_t(num_ranks));
  if (idle) std::fprintf(stderr, "%s\n", idle->c_str());
}

void tell_if_rough_is_not_faster(const TrainSettings& settings, Compute computes) {
  if (settings.precision.compute == computes) return;
  std::fprintf(stderr,
               "this processor has no AMX, and is not faster with bf16: computing in fp32\n");
}

}  // namespace

CpuWorker::CpuWorker(Communicator& comm, const TrainingJob& job, const TrainingData& data,
                     const Normalization& normalization, Recording& recording, WorkerHooks hooks)
    : CpuWorker(comm, Team{.of_computation = {.ranks = comm, .measures_noise = true}}, job, data,
                normalization, recording, std::move(hooks)) {}

CpuWorker::CpuWorker(Communicator& comm, const Team& team, const TrainingJob& job,
                     const TrainingData& data, const Normalization& normalization,
                     Recording& recording, WorkerHooks hooks)
    : num_ranks_(team.of_computation.ranks.size()),
      recording_(recording),
      hooks_(std::move(hooks)),
      division_(division_of(job.settings, job.model, data.train.size(),
                            {team.num_teams, team.of_computation.ranks.size(), team.own_mean})),
      computation_(comm, team.of_computation, job, division_, recording.timeline()),
      batches_(comm, job, data, normalization, {division_, computation_.leaves(), team.computes},
               recording.timeline()),
      planner_{team.own_mean, batches_.steps_per_epoch(),
               schedule_of(job.settings, division_.global_batch, batches_.steps_per_epoch())} {
  if (comm.rank() != 0) return;
  tell_idle_ranks(job.settings, comm.size());
  tell_if_rough_is_not_faster(job.settings, computation_.compute_type());
}

/// From begin_update() on, each sum of gradients changes the state as soon as it arrives.
OwnStep CpuWorker::step() {
  return make_step(
      [this](const StepPlan& plan, const LocalBatch& batch) {
        const ReportSlot::OfRank mine = of_rank();
        computation_.forward(plan, batch.leaves);
        computation_.require_finite_update(plan.step);
        computation_.state().begin_update(plan.learning_rate);
        computation_.backward(plan, batch.leaves, mine);
        if (computation_.state().waits_for_all()) computation_.finish_sums();
        return computation_.report();
      },
      [](const StepPlan&, float loss) { return loss; });
}

void CpuWorker::tell(const StepPlan& plan, const ReportSlot::Sums& sums,
                     std::optional<float> mean_loss) {
  if (!std::isfinite(sums.report.loss)) return;
  hooks_.stepped({.step = plan.step,
                  .samples = plan.all_samples,
                  .loss = mean_loss,
                  .weight = plan.tokens > 0 ? plan.weight : 0,
                  .tokens = plan.tokens,
                  .data_wait_s = double(sums.data_wait_s) / num_ranks_,
                  .communication_wait_s = double(sums.communication_wait_s) / num_ranks_,
                  .learning_rate = plan.learning_rate,
                  .gradient_norm = computation_.gradient_norm()});
}

}  // namespace dlflow::runtime
