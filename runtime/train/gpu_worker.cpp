#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/version.h"
#include "runtime/gpu/replica.h"
#include "runtime/nn/kernels.h"
#include "runtime/train/batches.h"
#include "runtime/train/divergence.h"
#include "runtime/train/division.h"
#include "runtime/train/metrics_log.h"
#include "runtime/train/preparation.h"
#include "runtime/train/recording.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {
namespace {

/// The floats that ranks exchange in every step, behind the gradients: one cache line. The device
/// puts the loss first.
constexpr size_t kGpuReportFloats = 16;

class GpuWorker final : public Worker {
 public:
  GpuWorker(Communicator& comm, const TrainingJob& job, const TrainingData& data,
            const Normalization& normalization, Recording& recording, WorkerHooks hooks)
      : comm_(comm),
        job_(job),
        recording_(recording),
        hooks_(std::move(hooks)),
        division_(division_of(job.settings, job.model, data.train.size(), {1, comm_.size()})),
        replica_(comm_, job.gpu, job.model, std::max(division_.largest_leaf(), kEvaluationBatch),
                 kGpuReportFloats, job.settings.precision.compute),
        weights_(layout().size()),
        velocity_(layout().trainable_size()),
        batches_(comm, job, data, normalization, {division_, {size_t(comm.rank()), 1}},
                 recording.timeline()),
        schedule_(schedule_of(job.settings, division_.global_batch, steps_per_epoch())) {
    require_same_arithmetic(comm_, layout(), arithmetic(), job.settings.precision.exact);
    replica_.prepare(batch_sizes(data.validation.size()));
    first_weights(job, layout(), weights_);
    replica_.set_state(weights_, velocity_);
    if (comm_.rank() == 0) {
      std::fprintf(stderr, "training on %s\n", replica_.arithmetic().c_str());
    }
  }

  const WeightLayout& layout() const override { return replica_.layout(); }
  size_t global_batch() const override { return division_.global_batch; }
  uint64_t steps_per_epoch() const override { return batches_.steps_per_epoch(); }

  std::string arithmetic() const override {
    return std::string("dlflow ") + DLFLOW_VERSION + ", " + replica_.arithmetic();
  }

  void restore(const Checkpoint& checkpoint, uint64_t updates) override {
    load_weights(checkpoint, layout(), weights_);
    load_optimizer_buffer(checkpoint, layout(), velocity_name(), velocity_);
    updates_ = updates;
    replica_.set_state(weights_, velocity_);
  }

  void seek(uint64_t epoch, uint64_t step) override {
    staged_.reset();
    batches_.seek(epoch, step);
  }
  std::optional<Divergence> divergence() const override { return {}; }

  void finish_update(uint64_t steps) override {
    replica_.get_state(weights_, velocity_);
    require_finite(layout(), weights_, steps);
  }

  std::span<const float> weights() override { return weights_; }

  ModelState::OptimizerContent optimizer_content() override {
    ModelState::OptimizerContent content;
    content.buffers.push_back({velocity_name(), velocity_});
    return content;
  }

  Inference inference() override {
    return [this, scores = std::vector<float>()](const Leaf& part) mutable {
      BatchResult result = replica_.infer(part.images, part.labels);
      scores.resize(part.count() * size_t(job_.model.num_classes()));
      replica_.get_scores(scores);
      result.num_in_top5 = num_in_top5(scores, part.labels);
      return Inferred{result, scores};
    };
  }

  void describe(Json& summary) const override {
    summary["optimizer_bytes_per_rank"] = velocity_.size() * sizeof(float);
  }

  /// Returns sums over all ranks, after the end of the update. Throws Diverged if it left a weight
  /// NaN or infinite.
  OwnStep step() override {
    recording_.begin_step();
    OwnStep own;
    {
      const Timed timed(recording_.timeline(), Timeline::Row::Step, "step");
      const Staged batch = staged_ ? *staged_ : stage_next();
      staged_.reset();
      const uint64_t step = batch.epoch * steps_per_epoch() + batch.step;
      const StepReport wishes = hooks_.wishes();
      const std::array<float, kGpuReportFloats> report = {0, wishes.stops, wishes.saves,
                                                          batch.wait_s};
      const DlflowGpuSgd how = sgd(step);
      replica_.begin_step(1 / float(batch.global_samples), report, how);
      stage_ahead(batch);
      const GpuReplica::StepEnd end = replica_.end_step();
      own = {{end.report[0], end.report[1], end.report[2]}, how.learning_rate};
      ++updates_;
      if (std::isfinite(own.report.loss)) {
        if (!end.finite) fail_update(step + 1);
        const double waited = double(end.report[3]) / comm_.size();
        hooks_.stepped({.step = step,
                        .samples = batch.global_samples,
                        .loss = own.report.loss,
                        .data_wait_s = waited,
                        .learning_rate = how.learning_rate});
      }
    }
    recording_.end_step();
    return own;
  }

  uint64_t updates() override { return updates_; }

 private:
  /// The samples of a step that are on the GPU, or being copied there.
  struct Staged {
    uint64_t epoch = 0, step = 0;
    size_t global_samples = 0;
    float wait_s = 0;  ///< time spent waiting for them
  };

  Staged stage_next() {
    const LocalBatch batch = batches_.load();
    const Leaf& mine = batch.leaves[0];
    replica_.stage(mine.images, mine.labels);
    return {batch.epoch, batch.step, batch.global_samples, batches_.last_wait_s()};
  }

  /// Stages the next step if that needs no wait, but no step behind a possible evaluation.
  void stage_ahead(const Staged& current) {
    if (current.step + 1 < steps_per_epoch() && batches_.is_ready()) staged_ = stage_next();
  }

  /// The batch sizes of all steps and evaluations.
  std::set<size_t> batch_sizes(size_t num_validation) const {
    std::set<size_t> sizes = division_.leaf_sizes();
    sizes.merge(Division{num_validation, kEvaluationBatch}.leaf_sizes());
    return sizes;
  }

  /// The name of the velocities in a checkpoint.
  std::string velocity_name() const {
    return make_optimizer(job_.settings.update.optimizer)->state_names().front();
  }

  DlflowGpuSgd sgd(uint64_t step) const {
    const OptimizerOptions& optimizer = job_.settings.update.optimizer;
    return {float(learning_rate(schedule_, step)), float(optimizer.momentum),
            float(optimizer.weight_decay)};
  }

  [[noreturn]] void fail_update(uint64_t steps) {
    replica_.get_state(weights_, velocity_);
    std::vector<float> gradients(layout().size());
    replica_.get_gradients(gradients);
    const std::span<const float> sums = gradients;
    runtime::fail_update(comm_, layout(), std::span(&sums, 1), weights_, steps);
  }

  Communicator& comm_;
  const TrainingJob& job_;
  Recording& recording_;
  WorkerHooks hooks_;
  Division division_;
  GpuReplica replica_;
  std::vector<float> weights_, velocity_;  // as last fetched from the GPU
  Batches batches_;
  std::optional<Staged> staged_;  // the next step, staged during the current one
  Schedule schedule_;
  uint64_t updates_ = 0;  // since the training began, over all its runs
};

}  // namespace

std::unique_ptr<Worker> make_gpu_worker(Communicator& comm, const TrainingJob& job,
                                        const TrainingData& data,
                                        const Normalization& normalization, Recording& recording,
                                        WorkerHooks hooks) {
  return std::make_unique<GpuWorker>(comm, job, data, normalization, recording, std::move(hooks));
}

}  // namespace dlflow::runtime
