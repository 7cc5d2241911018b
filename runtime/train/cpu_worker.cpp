#include "runtime/train/cpu_worker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "runtime/nn/arithmetic.h"
#include "runtime/train/divergence.h"
#include "runtime/train/division.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/gradient_compression.h"
#include "runtime/train/next_batch.h"
#include "runtime/train/same_arithmetic.h"
#include "runtime/train/shared_order.h"

namespace dlflow::runtime {
namespace {

/// A Report and the noise meter's numbers in a slot after the last parameter, summed with the
/// gradients, so that agreeing costs no message.
constexpr size_t kSlotFloats = 16;
constexpr size_t kReportFloats = 4;  // the last: seconds that ranks waited for data

FlatLayout flat_layout(const WeightLayout& layout) {
  std::vector<size_t> sizes;
  for (const Parameter& parameter : layout.parameters()) sizes.push_back(parameter.size);
  sizes.push_back(kSlotFloats);
  FlatLayout flat(sizes);
  DLFLOW_CHECK(flat.num_elements() == layout.size() + kSlotFloats);
  return flat;
}

/// As in flat_layout().
std::vector<std::string> parameter_names(const WeightLayout& layout) {
  std::vector<std::string> names;
  for (const Parameter& parameter : layout.parameters()) names.push_back(parameter.name);
  names.emplace_back("report");
  return names;
}

size_t own_samples(const Batch& batch) {
  size_t samples = 0;
  for (const Leaf& leaf : batch.leaves) samples += leaf.count();
  return samples;
}

}  // namespace

CpuWorker::CpuWorker(Communicator& comm, const Role& role, const TrainingJob& job,
                     const TrainingData& data, const Normalization& normalization,
                     Recording& recording, WorkerHooks hooks)
    : comm_(comm),
      role_(role),
      job_(job),
      recording_(recording),
      hooks_(std::move(hooks)),
      division_(division_of(job.settings, job.model, data.train.size(),
                            {role.num_teams, role.team->size(), role.own_mean})),
      networks_(make_networks()),
      reducer_(*role.team, flat_layout(layout()), reducer_options()),
      noise_(noise_setup()),
      passes_(make_passes(*role.team, networks_, reducer_, noise_, passes_options())),
      state_(*role.team, layout(), kSlotFloats, job.settings.update, reducer_.consumes_shares()),
      cache_(make_cache(data)),
      order_(shared_order(comm, data.train.size(), job.settings.seed, role.computes)),
      loader_(data.train, loader_options(normalization)),
      steps_per_epoch_(loader_.steps_per_epoch()),
      schedule_(schedule_of(job.settings, division_.global_batch, steps_per_epoch_)) {
  networks_.use_timeline(recording_.timeline());
  networks_.use_label_smoothing(job.settings.label_smoothing);
  if (!role_.updates) pushed_ = HugeBuffer(layout().size());
  if (state_.is_filled_here()) initialise(layout(), job.settings.seed, state_.weights());
  if (comm_.rank() != 0) return;
  tell_idle_ranks();
  tell_if_rough_is_not_faster();
}

/// In fast mode every rank has a leaf.
void CpuWorker::tell_idle_ranks() const {
  if (!job_.settings.precision.exact) return;
  const auto idle = idle_ranks(leaf_settings(job_.settings, comm_.size()), size_t(comm_.size()));
  if (idle) std::fprintf(stderr, "%s\n", idle->c_str());
}

/// Before gradients are exchanged, all ranks know that they compute alike.
NetworkSet CpuWorker::make_networks() const {
  const auto mode =
      job_.settings.joint_batch_norm ? Network::Mode::JointTraining : Network::Mode::Training;
  NetworkSet networks(job_.model, int64_t(division_.usual_leaf()), mode, nullptr, compute());
  require_same_arithmetic(comm_, *networks.layout(), arithmetic(), job_.settings.precision.exact);
  return networks;
}

size_t CpuWorker::leaves_of_team() const {
  return runtime::num_leaves(job_.settings, role_.team->size());
}

/// fp32 where bf16 is not faster.
Compute CpuWorker::compute() const {
  const bool rough = job_.settings.precision.compute == Compute::BFloat16;
  return rough && has_fast_bf16() ? Compute::BFloat16 : Compute::Float32;
}

std::string CpuWorker::arithmetic() const { return runtime::arithmetic(compute()); }

void CpuWorker::tell_if_rough_is_not_faster() const {
  if (job_.settings.precision.compute == compute()) return;
  std::fprintf(stderr,
               "this processor has no AMX, and is not faster with bf16: computing in fp32\n");
}

/// The update of a step begins while the backward pass is still running.
ReducerOptions CpuWorker::reducer_options() {
  ReducerOptions options;
  options.mode = job_.settings.precision.exact ? SumMode::Exact : SumMode::Fast;
  options.num_leaves = leaves_of_team();
  options.caller_adds_leaves = add_leaves(networks_, passes_options());
  options.rules = job_.rules;
  options.wire = job_.settings.gradients.wire;
  options.priority = job_.settings.gradients.priority;
  options.timeline = &recording_.timeline();
  options.names = parameter_names(layout());
  if (const auto& compression = job_.settings.gradients.compression) {
    tell_if_nothing_travels(*role_.team, *compression);
    options.compressed = compressed_gradients(layout(), *compression, job_.settings.seed);
  }
  options.consume = [this](size_t first, std::span<const float> sums) { consume(first, sums); };
  return options;
}

PassesOptions CpuWorker::passes_options() const {
  return {.division = division_,
          .exact = job_.settings.precision.exact,
          .joint = job_.settings.joint_batch_norm};
}

/// Ranks without leaves report nothing; half floats, and gradients that are compressed, hold too
/// little of what is subtracted; and what one team sums is not the gradient of the step.
NoiseMeter::Setup CpuWorker::noise_setup() const {
  const bool possible = role_.team_is_all && division_.num_leaves >= size_t(role_.team->size()) &&
                        job_.settings.gradients.wire == DataType::Float32 &&
                        !job_.settings.gradients.compression;
  return {division_.global_batch, possible ? division_.num_leaves : 1, reducer_.num_leaves(),
          layout().trainable_size(), reducer_.consumes_shares() || role_.team->rank() == 0};
}

LoaderOptions CpuWorker::loader_options(const Normalization& normalization) const {
  LoaderOptions options;
  options.division = division_;
  options.first_leaf = first_leaf();
  options.own_leaves = reducer_.num_leaves();
  options.seed = job_.settings.seed;
  options.order = order_.get();
  options.augmentation = job_.settings.augmentation;
  options.normalization = normalization;
  options.prefetch = role_.computes ? job_.prefetch : 0;
  options.images = cache_ ? &cache_->training() : job_.images.get();
  return options;
}

std::unique_ptr<NodeCache> CpuWorker::make_cache(const TrainingData& data) const {
  if (!job_.cache) return nullptr;
  VisitOrder order;
  order.num_epochs = job_.settings.epochs;
  order.seed = job_.settings.seed;
  order.train_chunks = SampleChunks(*job_.cache->data, data.train);
  order.division = division_;
  order.validation_chunks = SampleChunks(*job_.cache->data, data.validation);
  order.validation_batch = kEvaluationBatch;
  std::optional<Run> own;
  if (role_.computes) own = {first_leaf(), reducer_.num_leaves()};
  return std::make_unique<NodeCache>(comm_, *job_.cache, std::move(order), own);
}

void CpuWorker::seek(uint64_t epoch, uint64_t step) {
  if (cache_) cache_->start(epoch, step);
  loader_.seek(epoch, step);
}

OwnStep CpuWorker::step() {
  recording_.begin_step();
  OwnStep own;
  {
    const Timed timed = span(Timeline::Row::Step, "step");
    Batch batch = load();
    step_ = batch.epoch * steps_per_epoch_ + batch.step;
    const size_t all = batch.global_samples, mine = own_samples(batch);
    if (role_.own_mean) batch.global_samples = mine;
    samples_ = batch.global_samples;
    own.report = samples_ > 0 ? compute_step(batch) : skip_step();
    own.rate = role_.own_mean ? learning_rate_ * (double(mine) / double(all)) : learning_rate_;
    const double waited = state_.report()[kReportFloats - 1] / double(role_.team->size());
    if (std::isfinite(own.report.loss)) {
      hooks_.stepped(step_, all, mean_loss(own.report.loss, mine), waited);
    }
  }
  recording_.end_step();
  return own;
}

/// Others have samples: their updates count here, too, so that all ranks have made as many.
Report CpuWorker::skip_step() {
  if (role_.updates) state_.set_updates(state_.updates() + 1);
  return hooks_.wishes();
}

/// Of the team, from the sum that it reports, where this rank had so many samples.
std::optional<float> CpuWorker::mean_loss(float reported, size_t samples) const {
  if (role_.team_is_all) return reported;
  if (samples == 0) return std::nullopt;
  return float(double(reported) * double(samples_) / double(samples));
}

/// All of its time is time that the step waits for data: what is done ahead is not in it.
Batch CpuWorker::load() {
  using Row = Timeline::Row;
  const Timed timed = span(cache_ ? Row::Waiting : Row::Computation, "load");
  const auto begin = Timeline::Clock::now();
  const Batch batch = next_batch(comm_, loader_);
  data_wait_ = Timeline::Clock::now() - begin;
  return batch;
}

/// Returns the team's sum of the reports. The update of all ranks goes on into the next step; one
/// team's is over, and what is wrong with it is for all ranks to say, when they meet.
Report CpuWorker::compute_step(const Batch& batch) {
  networks_.use_weights(state_.weights(), [this](size_t i) { reducer_.wait(i); });
  const float my_loss =
      passes_->run(batch, [this](size_t leaf, float loss) { report(leaf, loss); });
  if (reducer_.num_leaves() == 0) begin_update();
  reducer_.end();
  if (state_.waits_for_all()) {
    reducer_.finish();
    const Timed update = span(Timeline::Row::Computation, "update");
    state_.finish_update();
  }
  reducer_.wait(report_index());
  const std::span<const float> sums = state_.report();
  Report report{sums[0], sums[1], sums[2]};
  noise_.read(sums.subspan<kReportFloats, NoiseMeter::kReportFloats>());
  if (!role_.team_is_all) reducer_.finish();
  if (!role_.team_is_all && !state_.finite()) report.loss = std::numeric_limits<float>::quiet_NaN();
  if (!std::isfinite(my_loss) && !divergence_) divergence_ = {step_ + 1, passes_->diverged_in()};
  return report;
}

/// Before the backward passes: the last step's update is over.
void CpuWorker::begin_update() {
  reducer_.begin(step_, step_ / steps_per_epoch_);
  if (role_.team_is_all) require_finite_update();
  learning_rate_ = learning_rate(schedule_, step_);
  if (role_.updates) state_.begin_update(learning_rate_);
  noise_.begin_step(step_, samples_);
}

void CpuWorker::consume(size_t first, std::span<const float> sums) {
  noise_.add_sums(first, sums);
  if (role_.updates) return state_.take(first, sums);
  const size_t kept = std::clamp(layout().size(), first, first + sums.size()) - first;
  std::ranges::copy(sums.first(kept), pushed_.floats().begin() + long(first));
  state_.take(first + kept, sums.subspan(kept));  // the report
}

void CpuWorker::finish_update(uint64_t steps) {
  step_ = steps;
  reducer_.finish();
  require_finite_update();
  require_finite(layout(), state_.weights(), steps);
}

void CpuWorker::require_finite_update() {
  if (state_.finite()) return;
  fail_update(*role_.team, layout(), gradients(), state_.weights(), step_);
}

/// What is not of one leaf goes with the first.
void CpuWorker::report(size_t leaf, float loss) {
  const bool first = leaf == 0;
  if (first) begin_update();
  const Report wishes = first ? hooks_.wishes() : Report{};
  const std::span<float> slot = reducer_.gradient(leaf, report_index());
  slot[0] = loss;
  slot[1] = wishes.stops;
  slot[2] = wishes.saves;
  slot[3] = first ? data_wait_.count() : 0;
  noise_.write(leaf, slot.subspan<kReportFloats, NoiseMeter::kReportFloats>());
  reducer_.ready(leaf, report_index());
}

Inference CpuWorker::inference() {
  if (!inference_) {
    inference_.emplace(job_.model, int64_t(kEvaluationBatch), Network::Mode::Inference,
                       networks_.layout());
  }
  return inference_with(*inference_, state_.weights());
}

void CpuWorker::describe(Json& summary) const {
  summary["optimizer_bytes_per_rank"] = state_.optimizer_bytes();
  if (cache_) cache_->describe(summary);
}

std::span<const float> CpuWorker::gradient() { return pushed_.floats(); }

std::vector<std::span<float>> CpuWorker::state() {
  std::vector<std::span<float>> all = {state_.weights()};
  for (const std::span<float> buffer : state_.optimizer_buffers()) all.push_back(buffer);
  return all;
}

void CpuWorker::update(size_t first, std::span<const float> gradient, double rate) {
  recording_.begin_step();
  {
    const Timed timed = span(Timeline::Row::Computation, "update");
    state_.begin_update(rate);
    state_.take(first, gradient);
  }
  recording_.end_step();
}

/// Of this rank's leaves.
std::vector<std::span<const float>> CpuWorker::gradients() {
  std::vector<std::span<const float>> all;
  for (size_t leaf = 0; leaf < reducer_.num_leaves(); ++leaf) {
    all.push_back(reducer_.gradients(leaf).first(layout().size()));
  }
  return all;
}

}  // namespace dlflow::runtime
