#include "runtime/train/gpu_trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "runtime/data/loader.h"
#include "runtime/gpu/replica.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/metrics_log.h"
#include "runtime/train/recording.h"
#include "runtime/train/same_job.h"
#include "runtime/train/split.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {
namespace {

constexpr size_t kEvaluationBatch = 250;
constexpr size_t kReportFloats = 16;

/// What ranks tell each other in every step, behind the gradients, as Worker's do.
struct StepReport {
  float loss = 0, stops = 0, saves = 0, waits = 0;
};

class GpuTrainer {
 public:
  GpuTrainer(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop)
      : comm_(comm),
        job_(same_on_all(comm, std::move(job))),
        stop_(stop),
        data_(split_off_validation(std::move(job_.data), settings().validation, settings().seed)),
        normalization_(settings().normalize ? normalization_from(*settings().normalize, data_.train)
                                            : normalization_of(data_.train)),
        replica_(comm, job_.gpu, job_.model, std::max(largest_share(), kEvaluationBatch),
                 kReportFloats),
        weights_(layout().size()),
        velocity_(layout().trainable_size()),
        loader_(data_.train, loader_options()),
        checkpoints_(comm, job_.checkpoints, job_.policy, layout()),
        recording_(comm, settings().timeline, job_.timeline),
        steps_per_epoch_(loader_.steps_per_epoch()) {
    initialise(layout(), settings().seed, weights_);
    resume();
    replica_.set_state(weights_, velocity_);
    loader_.seek(position_.epoch, position_.step);
    if (comm_.rank() != 0) return;
    std::fprintf(stderr, "training on %s\n", replica_.arithmetic().c_str());
    log_.emplace(job_.metrics, MetricsLog::Run{settings().epochs, steps_per_epoch_, steps_done()});
  }

  TrainingEnd run() {
    while (position_.epoch < settings().epochs) {
      if (position_.step < steps_per_epoch_) {
        step();
        recording_.end_step();
      }
      const bool epoch_ends = position_.step == steps_per_epoch_;
      if (epoch_ends) finish_epoch();
      const bool last = position_.epoch == settings().epochs;
      if (report_.stops > 0 || last ||
          checkpoints_.due(position_, steps_done(), epoch_ends, report_.saves > 0)) {
        save();
      }
      if (report_.stops > 0 && !last) return end(false);
    }
    return end(true);
  }

 private:
  const TrainSettings& settings() const { return job_.settings; }
  const WeightLayout& layout() const { return replica_.layout(); }
  size_t num_ranks() const { return size_t(comm_.size()); }
  size_t global_batch() const { return runtime::global_batch(settings(), comm_.size()); }
  size_t largest_share() const { return (global_batch() + num_ranks() - 1) / num_ranks(); }
  uint64_t steps_done() const { return position_.epoch * steps_per_epoch_ + position_.step; }

  /// One share of a batch for each rank.
  LoaderOptions loader_options() const {
    LoaderOptions options;
    options.global_batch = global_batch();
    options.num_leaves = num_ranks();
    options.first_leaf = size_t(comm_.rank());
    options.own_leaves = 1;
    options.seed = settings().seed;
    options.augmentation = settings().augmentation;
    options.normalization = normalization_;
    options.prefetch = job_.prefetch;
    return options;
  }

  DlflowGpuSgd sgd() const {
    const double warmup = settings().warmup_epochs * double(steps_per_epoch_);
    const UpdateSettings& update = settings().update;
    const double peak = scaled_rate(settings().lr, update.lr_scaling,
                                    double(global_batch()) / double(update.base_batch));
    const Schedule schedule = {settings().schedule, peak, uint64_t(std::llround(warmup)),
                               settings().epochs * steps_per_epoch_};
    return {float(learning_rate(schedule, steps_done())), float(update.optimizer.momentum),
            float(update.optimizer.weight_decay)};
  }

  TrainingState state() const {
    return {position_,
            settings().seed,
            global_batch(),
            data_.train.size(),
            normalization_,
            "fast, ranks: " + std::to_string(comm_.size()),
            std::string("dlflow ") + DLFLOW_VERSION + ", " + replica_.arithmetic(),
            name(settings().update.optimizer.kind),
            updates_};
  }

  /// What the velocities are called in a checkpoint.
  std::string velocity_name() const {
    return make_optimizer(settings().update.optimizer)->state_names().front();
  }

  void resume() {
    const std::optional<Checkpoint> checkpoint = checkpoints_.newest();
    if (!checkpoint) return;
    const TrainingState saved = checkpoints_.state_in(*checkpoint, state(), job_.model.text);
    load_weights(*checkpoint, layout(), weights_);
    load_optimizer_buffer(*checkpoint, layout(), velocity_name(), velocity_);
    updates_ = saved.updates;
    // With another number of ranks a step is another number of samples; none is left out.
    position_ = {saved.position.epoch, saved.position.step * saved.global_batch / global_batch()};
    last_metrics_ = checkpoint->info.metrics;
    if (comm_.rank() != 0) return;
    std::fprintf(stderr, "going on from %s: epoch %llu, step %llu\n", checkpoints_.last().c_str(),
                 (unsigned long long)position_.epoch + 1, (unsigned long long)position_.step);
  }

  void step() {
    recording_.begin_step();
    const Timed timed(recording_.timeline(), Timeline::Row::Step, "step");
    const Batch batch = load();
    const Leaf& own = batch.leaves[0];
    std::array<float, kReportFloats> report = {};
    report[1] = stop_ ? 1 : 0;
    report[2] = comm_.rank() == 0 && checkpoints_.due_by_clock() ? 1 : 0;
    report[3] = data_wait_.count();
    const GpuReplica::StepEnd end =
        replica_.step(own.images, own.labels, 1 / float(batch.global_samples), report, sgd());
    report_ = {end.report[0], end.report[1], end.report[2], end.report[3]};
    if (!std::isfinite(report_.loss))
      fail_loss(comm_, report_.loss, report_.loss, steps_done() + 1);
    ++position_.step;
    ++updates_;
    if (!end.finite) fail_update();
    if (!log_) return;
    const double waited = report_.waits / double(comm_.size());
    log_->step(steps_done() - 1, batch.global_samples, report_.loss, waited);
  }

  Batch load() {
    const Timed timed(recording_.timeline(), Timeline::Row::Computation, "load");
    const auto begin = Timeline::Clock::now();
    const Batch batch = loader_.next();
    data_wait_ = Timeline::Clock::now() - begin;
    return batch;
  }

  [[noreturn]] void fail_update() {
    fetch_state();
    std::vector<float> gradients(layout().size());
    replica_.get_gradients(gradients);
    const std::span<const float> sums = gradients;
    runtime::fail_update(comm_, layout(), std::span(&sums, 1), weights_, steps_done());
  }

  void fetch_state() { replica_.get_state(weights_, velocity_); }

  void finish_epoch() {
    const Timed timed(recording_.timeline(), Timeline::Row::Computation, "end of epoch");
    if (log_) log_->pause();
    std::optional<Evaluation> evaluation;
    if (data_.validation.size() > 0) {
      const auto infer = [this](const Leaf& part) {
        return replica_.infer(part.images, part.labels);
      };
      evaluation = evaluate(comm_, infer, data_.validation, normalization_, kEvaluationBatch);
    }
    last_metrics_.clear();
    if (evaluation) {
      last_metrics_ = {{"accuracy", evaluation->accuracy}, {"loss", evaluation->loss}};
    }
    if (log_) {
      if (!evaluation) last_metrics_ = {{"loss", log_->train_loss()}};
      log_->resume();
      log_->epoch(position_.epoch, evaluation, {});
    }
    position_ = {position_.epoch + 1, 0};
  }

  void save() {
    const Timed timed(recording_.timeline(), Timeline::Row::Computation, "checkpoint");
    fetch_state();
    require_finite(layout(), weights_, steps_done());
    CheckpointInfo info;
    info.step = steps_done();
    info.epoch = position_.epoch;
    info.samples = position_.epoch * data_.train.size() +
                   std::min<uint64_t>(position_.step * global_batch(), data_.train.size());
    if (position_.step == 0) info.metrics = last_metrics_;
    info.model = job_.model.text;
    const NamedBuffer velocity{velocity_name(), velocity_};
    checkpoints_.save(state(), info, weights_, std::span(&velocity, 1));
  }

  TrainingEnd end(bool finished) {
    comm_.barrier();  // rank 0 has saved
    recording_.finish();
    Json numbers;
    if (finished) {
      numbers = {{"epochs", settings().epochs},
                 {"steps", steps_done()},
                 {"ranks", comm_.size()},
                 {"optimizer_bytes_per_rank", velocity_.size() * sizeof(float)}};
      if (log_) {
        numbers["images_per_s"] = std::round(log_->images_per_second());
        numbers["data_wait_s"] = std::round(log_->data_wait() * 1000) / 1000;
      }
      for (const auto& [name, value] : last_metrics_) numbers[name] = value;
    }
    return {finished, checkpoints_.last(), numbers};
  }

  Communicator& comm_;
  TrainingJob job_;
  const std::atomic<bool>& stop_;
  TrainingData data_;
  Normalization normalization_;
  GpuReplica replica_;
  std::vector<float> weights_, velocity_;  // as they were when they were last fetched
  Loader loader_;
  Checkpoints checkpoints_;
  Recording recording_;
  uint64_t steps_per_epoch_;
  uint64_t updates_ = 0;                       // since the training began, whatever runs it was in
  std::chrono::duration<float> data_wait_{0};  // of this step
  Position position_;
  StepReport report_;  // of the last step, summed over ranks
  std::map<std::string, double> last_metrics_;
  std::optional<MetricsLog> log_;
};

}  // namespace

TrainingEnd train_on_gpu(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop) {
  return GpuTrainer(comm, std::move(job), stop).run();
}

}  // namespace dlflow::runtime
