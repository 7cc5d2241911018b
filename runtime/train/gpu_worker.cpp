#include "runtime/train/gpu_worker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "runtime/nn/kernels.h"
#include "runtime/train/divergence.h"
#include "runtime/train/division.h"
#include "runtime/train/same_job.h"

namespace dlflow::runtime {
namespace {

/// What ranks tell each other in every step, behind the gradients; a cache line. The first number
/// is the device's.
constexpr size_t kGpuReportFloats = 16;

}  // namespace

GpuWorker::GpuWorker(Communicator& comm, const TrainingJob& job, const TrainingData& data,
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

/// All that come in steps and evaluations.
std::set<size_t> GpuWorker::batch_sizes(size_t num_validation) const {
  std::set<size_t> sizes = division_.leaf_sizes();
  sizes.merge(Division{num_validation, kEvaluationBatch}.leaf_sizes());
  return sizes;
}

std::string GpuWorker::arithmetic() const {
  return std::string("dlflow ") + DLFLOW_VERSION + ", " + replica_.arithmetic();
}

/// What the velocities are called in a checkpoint.
std::string GpuWorker::velocity_name() const {
  return make_optimizer(job_.settings.update.optimizer)->state_names().front();
}

void GpuWorker::restore(const Checkpoint& checkpoint, uint64_t updates) {
  load_weights(checkpoint, layout(), weights_);
  load_optimizer_buffer(checkpoint, layout(), velocity_name(), velocity_);
  updates_ = updates;
  replica_.set_state(weights_, velocity_);
}

DlflowGpuSgd GpuWorker::sgd(uint64_t step) const {
  const OptimizerOptions& optimizer = job_.settings.update.optimizer;
  return {float(learning_rate(schedule_, step)), float(optimizer.momentum),
          float(optimizer.weight_decay)};
}

GpuWorker::Staged GpuWorker::stage_next() {
  const LocalBatch batch = batches_.load();
  const Leaf& mine = batch.leaves[0];
  replica_.stage(mine.images, mine.labels);
  return {batch.epoch, batch.step, batch.global_samples, batches_.last_wait_s()};
}

/// Within an epoch, behind which samples may be evaluated, and if nothing has to be waited for.
void GpuWorker::stage_ahead(const Staged& current) {
  if (current.step + 1 < steps_per_epoch() && batches_.is_ready()) staged_ = stage_next();
}

OwnStep GpuWorker::step() {
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

void GpuWorker::fail_update(uint64_t steps) {
  replica_.get_state(weights_, velocity_);
  std::vector<float> gradients(layout().size());
  replica_.get_gradients(gradients);
  const std::span<const float> sums = gradients;
  runtime::fail_update(comm_, layout(), std::span(&sums, 1), weights_, steps);
}

void GpuWorker::finish_update(uint64_t steps) {
  replica_.get_state(weights_, velocity_);
  require_finite(layout(), weights_, steps);
}

ModelState::OptimizerContent GpuWorker::optimizer_content() {
  ModelState::OptimizerContent content;
  content.buffers.push_back({velocity_name(), velocity_});
  return content;
}

Inference GpuWorker::inference() {
  return [this, scores = std::vector<float>()](const Leaf& part) mutable {
    BatchResult result = replica_.infer(part.images, part.labels);
    scores.resize(part.count() * size_t(job_.model.num_classes()));
    replica_.get_scores(scores);
    result.num_in_top5 = num_in_top5(scores, part.labels);
    return Inferred{result, scores};
  };
}

void GpuWorker::describe(Json& summary) const {
  summary["optimizer_bytes_per_rank"] = velocity_.size() * sizeof(float);
}

}  // namespace dlflow::runtime
