#include "runtime/train/lone_worker.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dlflow::runtime {

LoneWorker::LoneWorker(Communicator& comm, const Role& role, const TrainingJob& job,
                       const TrainingData& data, const Normalization& normalization,
                       Recording& recording, WorkerHooks hooks)
    : CpuWorker(
          comm,
          team_of(role, [this](size_t first, std::span<const float> sums) { keep(first, sums); }),
          job, data, normalization, recording, std::move(hooks)),
      makes_updates_(role.updates) {
  if (!makes_updates_) pushed_ = HugeBuffer(layout().exchanged_size());
}

CpuWorker::Team LoneWorker::team_of(const Role& role, StepComputation::Consume keep) {
  Team team{.of_computation = {.ranks = *role.team, .index = role.index},
            .num_teams = role.num_teams,
            .own_mean = role.own_mean,
            .computes = role.computes};
  if (!role.updates) team.of_computation.consume = std::move(keep);
  return team;
}

/// The team reports the sum over its samples, divided by the samples of all teams.
OwnStep LoneWorker::step() {
  return make_step(
      [this](const StepPlan& plan, const LocalBatch& batch) {
        return plan.samples == 0 ? skip() : compute(plan, batch);
      },
      [](const StepPlan& plan, float loss) -> std::optional<float> {
        if (plan.own_samples == 0) return std::nullopt;
        return float(double(loss) * double(plan.samples) / double(plan.own_samples));
      });
}

ReportSlot::Sums LoneWorker::compute(const StepPlan& plan, const LocalBatch& batch) {
  const ReportSlot::OfRank mine = of_rank();
  computation().forward(plan, batch.leaves);
  if (makes_updates_) computation().state().begin_update(plan.learning_rate);
  computation().backward(plan, batch.leaves, mine);
  computation().finish_sums();
  ReportSlot::Sums sums = computation().report();
  if (!computation().state().finite()) {
    sums.report.loss = std::numeric_limits<float>::quiet_NaN();
  }
  return sums;
}

/// Counts an update without samples: other ranks have some, and all ranks count the same.
ReportSlot::Sums LoneWorker::skip() {
  if (makes_updates_) set_updates(updates() + 1);
  const ReportSlot::OfRank mine = of_rank();
  return {mine.wishes, mine.data_wait_s};
}

void LoneWorker::keep(size_t first, std::span<const float> sums) {
  const size_t kept = std::clamp(layout().exchanged_size(), first, first + sums.size()) - first;
  std::ranges::copy(sums.first(kept), pushed_.floats().begin() + long(first));
  computation().state().take(first + kept, sums.subspan(kept));  // the report
}

std::vector<std::span<float>> LoneWorker::state() {
  std::vector<std::span<float>> all = {computation().state().weights()};
  for (const auto& buffer : computation().state().optimizer_buffers()) all.push_back(buffer);
  return all;
}

void LoneWorker::update(size_t first, std::span<const float> gradient, double rate) {
  recording().begin_step();
  {
    const Timed timed(recording().timeline(), Timeline::Row::Computation, "update");
    computation().state().begin_update(rate);
    computation().state().take(first, gradient);
  }
  recording().end_step();
}

}  // namespace dlflow::runtime
