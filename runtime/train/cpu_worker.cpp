#include "runtime/train/cpu_worker.h"

#include <cmath>
#include <cstdio>

#include "runtime/nn/arithmetic.h"
#include "runtime/train/division.h"

namespace dlflow::runtime {
namespace {

/// In fast mode every rank has a leaf.
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

/// Of the team, from the sum that it reports. Nothing where its rank had no samples.
std::optional<float> mean_loss(const Role& role, const StepPlan& plan, float reported) {
  if (role.team_is_all) return reported;
  if (plan.own_samples == 0) return std::nullopt;
  return float(double(reported) * double(plan.samples) / double(plan.own_samples));
}

}  // namespace

CpuWorker::CpuWorker(Communicator& comm, const Role& role, const TrainingJob& job,
                     const TrainingData& data, const Normalization& normalization,
                     Recording& recording, WorkerHooks hooks)
    : role_(role),
      recording_(recording),
      hooks_(std::move(hooks)),
      division_(division_of(job.settings, job.model, data.train.size(),
                            {role.num_teams, role.team->size(), role.own_mean})),
      computation_(comm, role, job, division_, recording.timeline()),
      batches_(comm, job, data, normalization, {division_, computation_.leaves(), role.computes},
               recording.timeline()),
      planner_(role, batches_.steps_per_epoch(),
               schedule_of(job.settings, division_.global_batch, batches_.steps_per_epoch())) {
  if (comm.rank() != 0) return;
  tell_idle_ranks(job.settings, comm.size());
  tell_if_rough_is_not_faster(job.settings, computation_.compute_type());
}

OwnStep CpuWorker::step() {
  recording_.begin_step();
  OwnStep own;
  {
    const Timed timed(recording_.timeline(), Timeline::Row::Step, "step");
    const LocalBatch batch = batches_.load();
    const StepPlan plan = planner_.plan(batch);
    const ReportSlot::Sums sums =
        plan.samples == 0
            ? skip()
            : computation_.compute(plan, batch.leaves, {hooks_.wishes(), batches_.last_wait_s()});
    tell(plan, sums);
    own = {sums.report, plan.rate_among_ranks};
  }
  recording_.end_step();
  return own;
}

/// Others have samples: their updates count here, too, so that all ranks have made as many.
ReportSlot::Sums CpuWorker::skip() {
  if (role_.updates) set_updates(updates() + 1);
  return {hooks_.wishes(), batches_.last_wait_s()};
}

void CpuWorker::tell(const StepPlan& plan, const ReportSlot::Sums& sums) {
  if (!std::isfinite(sums.report.loss)) return;
  const double ranks = double(role_.team->size());
  hooks_.stepped({.step = plan.step,
                  .samples = plan.all_samples,
                  .loss = mean_loss(role_, plan, sums.report.loss),
                  .weight = plan.tokens > 0 ? plan.weight : 0,
                  .tokens = plan.tokens,
                  .data_wait_s = double(sums.data_wait_s) / ranks,
                  .communication_wait_s = double(sums.communication_wait_s) / ranks,
                  .learning_rate = plan.learning_rate,
                  .gradient_norm = computation_.gradient_norm()});
}

void CpuWorker::restore(const Checkpoint& checkpoint, uint64_t updates) {
  computation_.state().restore(checkpoint, updates);
}

ModelState::OptimizerContent CpuWorker::optimizer_content() {
  return computation_.state().optimizer_content();
}

void CpuWorker::describe(Json& summary) const {
  summary["optimizer_bytes_per_rank"] = computation_.state().optimizer_bytes();
}

std::vector<std::span<float>> CpuWorker::state() {
  std::vector<std::span<float>> all = {computation_.state().weights()};
  for (const auto& buffer : computation_.state().optimizer_buffers()) all.push_back(buffer);
  return all;
}

void CpuWorker::update(size_t first, std::span<const float> gradient, double rate) {
  recording_.begin_step();
  {
    const Timed timed(recording_.timeline(), Timeline::Row::Computation, "update");
    computation_.state().begin_update(rate);
    computation_.state().take(first, gradient);
  }
  recording_.end_step();
}

}  // namespace dlflow::runtime
