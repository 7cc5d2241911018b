#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/fit/fit.h"
#include "runtime/fit/measures.h"
#include "runtime/settings/parts.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/compression_state.h"
#include "runtime/train/cpu_worker.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/lone_worker.h"
#include "runtime/train/metrics_log.h"
#include "runtime/train/preparation.h"
#include "runtime/train/progress_rules.h"
#include "runtime/train/recording.h"
#include "runtime/train/settings_kept.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {
namespace {

class Trainer {
 public:
  Trainer(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop)
      : comm_(comm),
        job_(prepared(comm, std::move(job))),
        stop_(stop),
        data_(held_out(comm, std::move(job_.data), settings())),
        rules_(settings(), job_.model, data_.validation.size()),
        normalization_(input_normalization(comm_, job_, data_.train)),
        recording_(comm, settings().timeline, job_.timeline),
        cooperation_(
            make_cooperation(settings().cooperation, comm, job_.rules, recording_.timeline())),
        worker_(make_worker()),
        checkpoints_(comm, job_.checkpoints, job_.policy, layout()),
        steps_per_epoch_(worker_->steps_per_epoch()) {
    resume();
    comm.barrier();  // until the state is filled
    worker_->seek(position_.epoch, position_.step);
    first_step_ = steps_done();
    if (comm_.rank() == 0) {
      log_.emplace(job_.metrics, MetricsLog::Run{settings().epochs, steps_per_epoch_, first_step_,
                                                 epoch_loss_, rate_of(job_.model, data_.train)});
    }
  }

  TrainingEnd run() {
    while (!is_over()) {
      if (position_.step < steps_per_epoch_) advance();
      const bool epoch_ends = position_.step == steps_per_epoch_;
      const bool is_best = epoch_ends && finish_epoch();
      const bool last = is_over();
      if (report_.stops > 0 || last || is_best ||
          checkpoints_.due(position_, steps_done(), epoch_ends, report_.saves > 0))
        save(report_.stops > 0 || last);
      if (report_.stops > 0 && !last) {
        finish();
        return {false, checkpoints_.last(), {}};
      }
    }
    finish();
    tell_early_stop();
    return {true, result(), summary()};
  }

 private:
  /// True after the last epoch, or after one that stops the training early.
  bool is_over() const {
    const bool between = position_.step == 0 && position_.epoch > 0;
    return position_.epoch == settings().epochs || (between && rules_.stops_after(position_.epoch));
  }

  void tell_early_stop() const {
    if (comm_.rank() != 0) return;
    const std::string missed = rules_.missed();
    if (position_.epoch == settings().epochs) {
      if (!missed.empty()) std::fprintf(stderr, "%s\n", missed.c_str());
      return;
    }
    std::fprintf(stderr, "stopped after epoch %llu of %llu: %s\n",
                 (unsigned long long)position_.epoch, (unsigned long long)settings().epochs,
                 rules_.reason().c_str());
  }

  void warn_unmeasured() const {
    const std::string warning = rules_.unmeasured(last_metrics_);
    if (comm_.rank() == 0 && !warning.empty()) {
      std::fprintf(stderr, "warning: %s\n", warning.c_str());
    }
  }

  /// The checkpoint that holds the result of training; on rank 0.
  std::filesystem::path result() const {
    const auto best = rules_.best_step();
    return best ? checkpoint_folder(job_.checkpoints, *best) : checkpoints_.last();
  }

  /// Counts the steps of the training over all requeues.
  uint64_t step_of_training() const { return uint64_t(int64_t(steps_done()) + steps_before_); }

  const TrainSettings& settings() const { return job_.settings; }
  const WeightLayout& layout() const { return worker_->layout(); }
  uint64_t steps_done() const { return position_.epoch * steps_per_epoch_ + position_.step; }

  std::unique_ptr<Worker> make_worker() {
    if (settings().device == Device::Cuda) {
      return make_gpu_worker(comm_, job_, data_, normalization_, recording_, hooks());
    }
    if (!cooperation_) {
      return std::make_unique<CpuWorker>(comm_, job_, data_, normalization_, recording_, hooks());
    }
    auto lone = std::make_unique<LoneWorker>(comm_, cooperation_->role(), job_, data_,
                                             normalization_, recording_, hooks());
    lone_ = lone.get();
    return lone;
  }

  WorkerHooks hooks() {
    return {
        .wishes =
            [this] {
              const bool saves = comm_.rank() == 0 && checkpoints_.due_by_clock();
              return StepReport{0, stop_ ? 1.0f : 0.0f, saves ? 1.0f : 0.0f};
            },
        .stepped =
            [this](const StepMetrics& metrics) {
              if (log_) log_->step(metrics);
            },
    };
  }

  TrainingState state() {
    return {position_,
            settings().seed,
            worker_->global_batch(),
            data_.train.size(),
            normalization_,
            how_gradients_are_added(settings(), comm_.size()),
            worker_->arithmetic(),
            name(settings().update.optimizer.kind),
            worker_->updates(),
            log_ ? log_->train_loss() : MeanLoss(),
            follows_epochs(settings().schedule) ? settings().epochs : 0,
            job_.data_identity,
            kept(),
            rules_.state(),
            job_.class_names,
            data_.train.tokenizer,
            job_.origin};
  }

  Json kept() const {
    Json all = settings_kept(settings());
    all["start_from"] = job_.start ? job_.start->identity : "random numbers";
    return all;
  }

  /// Resumes from the newest checkpoint, if there is one.
  void resume() {
    const std::optional<Checkpoint> checkpoint = checkpoints_.newest();
    if (!checkpoint) return;
    const TrainingState saved = checkpoints_.state_in(*checkpoint, state(), job_.model.text);
    worker_->restore(*checkpoint, saved.updates);
    load_compression(comm_, layout(), *checkpoint, worker_->compressed());
    // Another number of ranks makes steps of another size; no sample is skipped.
    position_ = {saved.position.epoch,
                 saved.position.step * saved.global_batch / worker_->global_batch()};
    require_epochs_left();
    steps_before_ = int64_t(checkpoint->info.step) - int64_t(steps_done());
    epoch_loss_ = saved.epoch_loss;
    restore_rules(saved.rules);
    last_metrics_ = checkpoint->info.metrics;
    if (comm_.rank() == 0) {
      std::fprintf(stderr, "continuing from %s: epoch %llu, step %llu\n",
                   checkpoints_.last().c_str(), (unsigned long long)position_.epoch + 1,
                   (unsigned long long)position_.step);
    }
  }

  /// Throws if the checkpoint is beyond the last epoch: its weights would not be the result of
  /// `epochs`.
  void require_epochs_left() const {
    const uint64_t begun = position_.epoch + (position_.step > 0 ? 1 : 0);
    if (begun <= settings().epochs) return;
    throw Error(Errc::InvalidInput, "with: 'epochs' is " + std::to_string(settings().epochs) +
                                        ", but the newest checkpoint, " +
                                        checkpoints_.last().string() + ", is of epoch " +
                                        std::to_string(begun) +
                                        "; write at least that many epochs, or train from scratch "
                                        "into another folder of checkpoints");
  }

  /// Verifies the best checkpoint, too: it may be lost if a newer one was skipped as invalid.
  void restore_rules(const Json& saved) {
    rules_.restore(saved);
    if (!rules_.best_step()) return;
    std::string reason;
    try {
      if (comm_.rank() == 0) verify_checkpoint(result());
    } catch (const Error& e) {
      reason = e.what();
    }
    reason = broadcast_text(comm_, reason);
    if (reason.empty()) return;
    throw Error(Errc::Corrupt, "the best checkpoint so far cannot be used: " + reason +
                                   "; train into another folder of checkpoints");
  }

  /// Continues to the next step at which all ranks meet.
  void advance() {
    const uint64_t epoch_begins = position_.epoch * steps_per_epoch_;
    const uint64_t limit =
        std::min(epoch_begins + steps_per_epoch_, checkpoints_.next_due(steps_done()));
    // The report of a common step is already a sum over ranks: it travelled with the gradients.
    const Meeting meeting =
        lone_ == nullptr
            ? Meeting{steps_done() + 1, worker_->step().report}
            : cooperation_->advance({*lone_, *lone_}, {position_.epoch, steps_done(), limit});
    position_.step = meeting.done - epoch_begins;
    report_ = meeting.report;
    if (!std::isfinite(report_.loss)) {
      fail_loss(comm_, report_.loss, worker_->divergence(), steps_done());
    }
    checkpoints_.look();
    recording_.meet(steps_done() - first_step_);
  }

  Timed span(Timeline::Row row, std::string_view name) {
    return {recording_.timeline(), row, name};
  }

  /// True if the epoch is the best so far; its checkpoint is then kept.
  bool finish_epoch() {
    const Timed timed = span(Timeline::Row::Computation, "end of epoch");
    worker_->finish_update(steps_done());
    std::optional<Evaluation> evaluation;
    if (log_) log_->pause();
    if (data_.validation.size() > 0) {
      evaluation = evaluate(comm_, job_.model, worker_->inference(),
                            {data_.validation, normalization_, kEvaluationBatch, job_.images.get(),
                             job_.loader_threads});
    }
    last_metrics_.clear();
    if (evaluation) last_metrics_ = evaluation->metrics();
    if (log_) {
      if (!evaluation) last_metrics_ = {{"loss", log_->train_loss().mean()}};
      log_->resume();
      log_->epoch(position_.epoch, evaluation, worker_->take_noise_scale());
    }
    position_ = {position_.epoch + 1, 0};
    if (evaluation && position_.epoch == 1) warn_unmeasured();
    return evaluation && rules_.end_epoch(position_.epoch, step_of_training(), last_metrics_);
  }

  void save(bool is_last) {
    const Timed timed = span(Timeline::Row::Computation, "checkpoint");
    worker_->finish_update(steps_done());
    CheckpointInfo info;
    info.step = step_of_training();
    info.epoch = position_.epoch;
    info.samples = position_.epoch * data_.train.size() +
                   std::min<uint64_t>(position_.step * worker_->global_batch(), data_.train.size());
    if (position_.step == 0) info.metrics = last_metrics_;
    info.model = job_.model.text;
    CompressionState unsent(comm_, layout(), worker_->compressed());
    checkpoints_.save(state(), info, worker_->weights(), worker_->optimizer_content(),
                      std::move(unsent), is_last);
  }

  /// All ranks wait until rank 0 has written the last checkpoint.
  void finish() {
    checkpoints_.finish();
    comm_.barrier();
    recording_.finish();
  }

  Json summary() {
    Json numbers = {{"epochs", position_.epoch}, {"steps", steps_done()}, {"ranks", comm_.size()}};
    worker_->describe(numbers);
    if (log_) {
      const Rate rate = rate_of(job_.model, data_.train);
      numbers[rate.metric] = std::round(rate.of(log_->samples_per_second()));
      numbers["data_wait_s"] = std::round(log_->data_wait() * 1000) / 1000;
      if (const auto waited = log_->communication_wait()) {
        numbers["communication_wait_s"] = std::round(*waited * 1000) / 1000;
      }
    }
    if (log_ && log_->noise_scale()) numbers["noise_scale"] = *log_->noise_scale();
    const bool has_best = rules_.best_step().has_value();
    if (has_best) numbers["best_epoch"] = rules_.best_epoch();
    if (rules_.reached()) numbers["reached_epoch"] = *rules_.reached();
    const auto& metrics = has_best ? rules_.best_metrics() : last_metrics_;
    for (const auto& [name, value] : metrics) numbers[name] = value;
    return numbers;
  }

  Communicator& comm_;
  TrainingJob job_;
  const std::atomic<bool>& stop_;
  TrainingData data_;
  EpochRules rules_;
  Normalization normalization_;
  Recording recording_;
  std::unique_ptr<Cooperation> cooperation_;  // null: all ranks take every step together
  LoneWorker* lone_ = nullptr;                // same as `worker_` if `cooperation_` is set
  std::unique_ptr<Worker> worker_;
  Checkpoints checkpoints_;
  uint64_t steps_per_epoch_;
  uint64_t first_step_ = 0;   // the first step of this process
  int64_t steps_before_ = 0;  // further steps done with another step size
  MeanLoss epoch_loss_;       // over the epoch's steps before this process began
  Position position_;
  StepReport report_;  // from the last meeting
  std::map<std::string, double> last_metrics_;
  std::optional<MetricsLog> log_;
};

}  // namespace

void first_weights(const TrainingJob& job, const WeightLayout& layout, std::span<float> weights) {
  initialise(layout, job.settings.seed, weights);
  if (job.start) take_start_weights(*job.start, layout, weights);
}

TrainingEnd train(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop) {
  return Trainer(comm, std::move(job), stop).run();
}

}  // namespace dlflow::runtime
