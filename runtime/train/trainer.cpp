#include "runtime/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "runtime/comm/broadcast_text.h"
#include "runtime/data/loader.h"
#include "runtime/data/shard.h"
#include "runtime/nn/arithmetic.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/agreement.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/metrics_log.h"
#include "runtime/train/model_state.h"
#include "runtime/train/network_set.h"
#include "runtime/train/passes.h"
#include "runtime/train/recording.h"
#include "runtime/train/same_job.h"
#include "runtime/train/split.h"
#include "runtime/train/training_state.h"

namespace dlflow::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kEvaluationBatch = 250;

/// What ranks tell each other in every step: a slot after the last parameter, summed with the
/// gradients, so that agreeing costs no message.
struct StepReport {
  float loss = 0;   // this rank's share of the mean; summed: of the global batch
  float stops = 0;  // ranks that were asked to stop
  float saves = 0;  // rank 0's clock says that a checkpoint is due
};
constexpr size_t kReportFloats = 16;

FlatLayout flat_layout(const WeightLayout& layout) {
  std::vector<size_t> sizes;
  for (const Parameter& parameter : layout.parameters()) sizes.push_back(parameter.size);
  sizes.push_back(kReportFloats);
  FlatLayout flat(sizes);
  DLFLOW_CHECK(flat.num_elements() == layout.size() + kReportFloats);
  return flat;
}

/// As in flat_layout().
std::vector<std::string> parameter_names(const WeightLayout& layout) {
  std::vector<std::string> names;
  for (const Parameter& parameter : layout.parameters()) names.push_back(parameter.name);
  names.emplace_back("report");
  return names;
}

class Trainer {
 public:
  Trainer(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop)
      : comm_(comm),
        job_(same_on_all(comm, std::move(job))),
        stop_(stop),
        data_(split_off_validation(std::move(job_.data), settings().validation, settings().seed)),
        normalization_(settings().normalize ? normalization_from(*settings().normalize, data_.train)
                                            : normalization_of(data_.train)),
        networks_(
            job_.model, int64_t(largest_leaf()),
            settings().joint_batch_norm ? Network::Mode::JointTraining : Network::Mode::Training,
            nullptr, compute()),
        reducer_(comm, flat_layout(layout()), reducer_options()),
        passes_(make_passes(comm, networks_, reducer_, num_leaves(), settings().joint_batch_norm)),
        state_(comm, layout(), kReportFloats,
               {float(settings().momentum), float(settings().weight_decay)},
               reducer_.consumes_shares()),
        loader_(data_.train, loader_options()),
        recording_(comm, settings().timeline, job_.timeline) {
    networks_.use_timeline(recording_.timeline());
    steps_per_epoch_ = loader_.steps_per_epoch();
    if (state_.is_filled_here()) initialise(layout(), settings().seed, state_.weights());
    resume();
    comm.barrier();  // the state is filled
    loader_.seek(position_.epoch, position_.step);
    if (comm_.rank() == 0) {
      log_.emplace(job_.metrics,
                   MetricsLog::Run{settings().epochs, steps_per_epoch_, steps_done()});
    }
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
      if (report_.stops > 0 || last || checkpoint_is_due(epoch_ends)) save();
      if (report_.stops > 0 && !last) {
        comm_.barrier();  // rank 0 has saved
        recording_.finish();
        return {false, newest_, {}};
      }
    }
    comm_.barrier();
    recording_.finish();
    return {true, newest_, summary()};
  }

 private:
  const TrainSettings& settings() const { return job_.settings; }
  const WeightLayout& layout() const { return *networks_.layout(); }
  size_t global_batch() const { return runtime::global_batch(settings(), comm_.size()); }
  size_t num_leaves() const { return runtime::num_leaves(settings(), comm_.size()); }
  size_t largest_leaf() const { return (global_batch() + num_leaves() - 1) / num_leaves(); }
  uint64_t steps_done() const { return position_.epoch * steps_per_epoch_ + position_.step; }

  /// fp32 where bf16 is not faster.
  Compute compute() const {
    const bool rough = settings().precision.compute == Compute::BFloat16;
    if (rough && !has_fast_bf16() && comm_.rank() == 0) {
      std::fprintf(stderr,
                   "this processor has no AMX, and is not faster with bf16: computing in fp32\n");
    }
    return rough && has_fast_bf16() ? Compute::BFloat16 : Compute::Float32;
  }

  /// The update of a step begins while the backward pass is still running.
  ReducerOptions reducer_options() {
    ReducerOptions options;
    options.mode = settings().precision.exact ? SumMode::Exact : SumMode::Fast;
    options.num_leaves = num_leaves();
    options.rules = job_.rules;
    options.wire = settings().gradients.wire;
    options.priority = settings().gradients.priority;
    options.timeline = &recording_.timeline();
    options.names = parameter_names(layout());
    options.consume = [this](size_t first, std::span<const float> sums) {
      state_.update(first, sums, learning_rate_);
    };
    return options;
  }

  LoaderOptions loader_options() const {
    LoaderOptions options;
    options.global_batch = global_batch();
    options.num_leaves = num_leaves();
    options.first_leaf = reducer_.first_leaf();
    options.own_leaves = reducer_.num_leaves();
    options.seed = settings().seed;
    options.augmentation = settings().augmentation;
    options.normalization = normalization_;
    options.prefetch = job_.prefetch;
    return options;
  }

  Schedule schedule() const {
    const double warmup = settings().warmup_epochs * double(steps_per_epoch_);
    return {settings().schedule, settings().lr, uint64_t(std::llround(warmup)),
            settings().epochs * steps_per_epoch_};
  }

  TrainingState state() const {
    const std::string reduction = settings().precision.exact
                                      ? "exact, leaves: " + std::to_string(num_leaves())
                                      : "fast, ranks: " + std::to_string(comm_.size());
    const std::string products = settings().precision.compute == Compute::BFloat16 ? ", bf16" : "";
    return {position_,      settings().seed,      global_batch(), data_.train.size(),
            normalization_, reduction + products, arithmetic()};
  }

  /// Goes on from the newest checkpoint, if there is one. Rank 0 chooses it.
  void resume() {
    LatestCheckpoint latest;
    if (comm_.rank() == 0) {
      latest = latest_valid(job_.checkpoints);
      for (const std::string& reason : latest.rejected) {
        std::fprintf(stderr, "checkpoint passed over: %s\n", reason.c_str());
      }
    }
    const std::string path = broadcast_text(comm_, latest.path.value_or("").string());
    if (path.empty()) return;
    const Checkpoint checkpoint = load_checkpoint(path);
    const TrainingState saved = training_state_of(checkpoint);
    require_same_run(path, checkpoint, saved);
    if (state_.is_filled_here()) {
      load_tensors(checkpoint, layout(), state_.weights(), state_.velocity());
    }
    // With another number of ranks a step is another number of samples; none is left out.
    position_ = {saved.position.epoch, saved.position.step * saved.global_batch / global_batch()};
    newest_ = path;
    last_metrics_ = checkpoint.info.metrics;
    if (comm_.rank() == 0) {
      std::fprintf(stderr, "going on from %s: epoch %llu, step %llu\n", path.c_str(),
                   (unsigned long long)position_.epoch + 1, (unsigned long long)position_.step);
      for (const std::string& change : changes_of_bits(saved, state())) {
        std::fprintf(stderr, "not the bits of an uninterrupted run from here on: %s\n",
                     change.c_str());
      }
    }
  }

  void require_same_run(const std::string& path, const Checkpoint& checkpoint,
                        const TrainingState& saved) const {
    const auto refuse = [&](const std::string& what) {
      throw Error(Errc::InvalidInput, path + " is of a run with " + what +
                                          "; train into another folder of checkpoints");
    };
    if (checkpoint.info.model != job_.model.text) refuse("another model");
    if (saved.seed != settings().seed) refuse("seed " + std::to_string(saved.seed));
    if (saved.train_samples != data_.train.size()) {
      refuse(std::to_string(saved.train_samples) + " training samples");
    }
    if (saved.normalization != normalization_) refuse("another normalisation");
  }

  void step() {
    recording_.begin_step();
    const Timed timed = span(Timeline::Row::Step, "step");
    const Batch batch = load();
    networks_.use_weights(state_.weights(), [this](size_t i) { reducer_.wait(i); });
    const float my_loss =
        passes_->run(batch, [this](size_t leaf, float loss) { report(leaf, loss); });
    if (reducer_.num_leaves() == 0) begin_update();
    reducer_.end();
    reducer_.wait(report_index());
    const std::span<const float> sums = state_.report();
    report_ = {sums[0], sums[1], sums[2]};
    if (!std::isfinite(report_.loss)) {
      fail_loss(comm_, report_.loss, my_loss, steps_done() + 1);
    }
    ++position_.step;
    if (log_) log_->step(steps_done() - 1, batch.global_samples, report_.loss);
  }

  /// Before the backward passes: the last step's update is over.
  void begin_update() {
    reducer_.begin();
    require_finite_update();
    learning_rate_ = float(learning_rate(schedule(), steps_done()));
  }

  /// Before the weights are looked at as a whole.
  void finish_update() {
    reducer_.finish();
    require_finite_update();
    require_finite(layout(), state_.weights(), steps_done());
  }

  void require_finite_update() {
    if (state_.finite()) return;
    fail_update(comm_, layout(), gradients(), state_.weights(), steps_done());
  }

  Timed span(Timeline::Row row, std::string_view name) {
    return {recording_.timeline(), row, name};
  }

  Batch load() {
    const Timed timed = span(Timeline::Row::Computation, "load");
    return loader_.next();
  }

  size_t report_index() const { return layout().parameters().size(); }

  /// What is not of one leaf goes with the first.
  void report(size_t leaf, float loss) {
    const bool first = leaf == 0;
    if (first) begin_update();
    const std::span<float> slot = reducer_.gradient(leaf, report_index());
    slot[0] = loss;
    slot[1] = first && stop_ ? 1 : 0;
    slot[2] = first && comm_.rank() == 0 && time_for_checkpoint() ? 1 : 0;
    reducer_.ready(leaf, report_index());
  }

  /// Of this rank's leaves.
  std::vector<std::span<const float>> gradients() {
    std::vector<std::span<const float>> all;
    for (size_t leaf = 0; leaf < reducer_.num_leaves(); ++leaf) {
      all.push_back(reducer_.gradients(leaf).first(layout().size()));
    }
    return all;
  }

  void finish_epoch() {
    const Timed timed = span(Timeline::Row::Computation, "end of epoch");
    finish_update();
    std::optional<Evaluation> evaluation;
    if (log_) log_->pause();
    if (data_.validation.size() > 0) evaluation = validate();
    last_metrics_.clear();
    if (evaluation)
      last_metrics_ = {{"accuracy", evaluation->accuracy}, {"loss", evaluation->loss}};
    if (log_) {
      if (!evaluation) last_metrics_ = {{"loss", log_->train_loss()}};
      log_->resume();
      log_->epoch(position_.epoch, evaluation);
    }
    position_ = {position_.epoch + 1, 0};
  }

  Evaluation validate() {
    if (!inference_) {
      inference_.emplace(job_.model, int64_t(kEvaluationBatch), Network::Mode::Inference,
                         networks_.layout());
    }
    return evaluate(comm_, *inference_, state_.weights(), data_.validation, normalization_,
                    kEvaluationBatch);
  }

  bool time_for_checkpoint() const {
    return job_.policy.unit == CheckpointPolicy::Unit::Seconds &&
           Clock::now() - last_save_ >= std::chrono::seconds(job_.policy.every);
  }

  bool checkpoint_is_due(bool epoch_ends) const {
    switch (job_.policy.unit) {
      case CheckpointPolicy::Unit::Epochs:
        return epoch_ends && position_.epoch % job_.policy.every == 0;
      case CheckpointPolicy::Unit::Steps:
        return steps_done() % job_.policy.every == 0;
      case CheckpointPolicy::Unit::Seconds:
        return report_.saves > 0;
    }
    return false;
  }

  void save() {
    const Timed timed = span(Timeline::Row::Computation, "checkpoint");
    finish_update();
    last_save_ = Clock::now();
    if (comm_.rank() != 0) return;
    const Activity activity(comm_, "saves a checkpoint");
    CheckpointInfo info;
    info.step = steps_done();
    info.epoch = position_.epoch;
    info.samples = position_.epoch * data_.train.size() +
                   std::min<uint64_t>(position_.step * global_batch(), data_.train.size());
    if (position_.step == 0) info.metrics = last_metrics_;
    info.model = job_.model.text;
    newest_ = save_training(job_.checkpoints, job_.policy.keep, layout(), state(), info,
                            state_.weights(), state_.velocity());
  }

  Json summary() const {
    Json numbers = {
        {"epochs", settings().epochs}, {"steps", steps_done()}, {"ranks", comm_.size()}};
    if (log_) numbers["images_per_s"] = std::round(log_->images_per_second());
    for (const auto& [name, value] : last_metrics_) numbers[name] = value;
    return numbers;
  }

  Communicator& comm_;
  TrainingJob job_;
  const std::atomic<bool>& stop_;
  TrainingData data_;
  Normalization normalization_;
  NetworkSet networks_;
  std::optional<NetworkSet> inference_;
  Reducer reducer_;
  std::unique_ptr<Passes> passes_;
  ModelState state_;
  float learning_rate_ = 0;  // of the update that is under way
  Loader loader_;
  Recording recording_;
  uint64_t steps_per_epoch_ = 0;
  Position position_;
  StepReport report_;  // of the last step, summed over ranks
  std::map<std::string, double> last_metrics_;
  std::filesystem::path newest_;
  Clock::time_point last_save_ = Clock::now();
  std::optional<MetricsLog> log_;
};

}  // namespace

TrainingEnd train(Communicator& comm, TrainingJob job, const std::atomic<bool>& stop) {
  return Trainer(comm, std::move(job), stop).run();
}

}  // namespace dlflow::runtime
