#include "runtime/train/step_computation.h"

#include <algorithm>
#include <cmath>

#include "runtime/train/gradient_compression.h"
#include "runtime/train/preparation.h"
#include "runtime/train/worker.h"

namespace dlflow::runtime {
namespace {

std::span<const Parameter> exchanged(const WeightLayout& layout) {
  return std::span(layout.parameters()).first(layout.num_exchanged());
}

FlatLayout flat_layout(const WeightLayout& layout) {
  std::vector<size_t> sizes;
  for (const Parameter& parameter : exchanged(layout)) sizes.push_back(parameter.size);
  sizes.push_back(ReportSlot::kFloats);
  FlatLayout flat(sizes);
  DLFLOW_CHECK(flat.num_elements() == layout.exchanged_size() + ReportSlot::kFloats);
  return flat;
}

/// In the order of flat_layout().
std::vector<std::string> parameter_names(const WeightLayout& layout) {
  std::vector<std::string> names;
  for (const Parameter& parameter : exchanged(layout)) names.push_back(parameter.name);
  names.emplace_back("report");
  return names;
}

size_t leaves_of_team(const TrainingJob& job, const StepComputation::Team& team) {
  return num_leaves(job.settings, team.ranks.size());
}

}  // namespace

StepComputation::StepComputation(Communicator& comm, const Team& team, const TrainingJob& job,
                                 const Division& division, Timeline& timeline)
    : team_(team),
      job_(job),
      division_(division),
      timeline_(timeline),
      networks_(make_networks(comm)),
      reducer_(team.ranks, flat_layout(layout()), reducer_options()),
      noise_(noise_setup()),
      report_(reducer_, noise_),
      passes_(make_passes(team.ranks, networks_, reducer_, noise_, passes_options())),
      state_(team.ranks, layout(), ReportSlot::kFloats, job.settings.update,
             reducer_.consumes_shares()) {
  networks_.set([this](Network& network) {
    network.use_timeline(timeline_);
    network.use_label_smoothing(job_.settings.label_smoothing);
    network.use_class_weights(job_.settings.class_weights);
  });
  if (!state_.is_filled_here()) return;
  first_weights(job, layout(), state_.weights());
  state_.begin();
}

/// Verifies that all ranks compute alike before they exchange gradients.
NetworkSet StepComputation::make_networks(Communicator& comm) const {
  const auto mode =
      job_.settings.joint_batch_norm ? Network::Mode::JointTraining : Network::Mode::Training;
  NetworkSet networks(job_.model, int64_t(division_.usual_leaf()), mode, nullptr, compute_type(),
                      job_.settings.activation_bytes);
  require_same_arithmetic(comm, *networks.layout(), arithmetic(), job_.settings.precision.exact);
  return networks;
}

/// Returns fp32 where bf16 is not faster.
Compute StepComputation::compute_type() const {
  const bool rough = job_.settings.precision.compute == Compute::BFloat16;
  return rough && has_fast_bf16() ? Compute::BFloat16 : Compute::Float32;
}

std::string StepComputation::arithmetic() const { return runtime::arithmetic(compute_type()); }

ReducerOptions StepComputation::reducer_options() {
  ReducerOptions options;
  options.mode = job_.settings.precision.exact ? SumMode::Exact : SumMode::Fast;
  options.num_leaves = leaves_of_team(job_, team_);
  options.caller_adds_leaves = add_leaves(networks_, passes_options());
  options.rules = job_.rules;
  options.wire = job_.settings.gradients.wire;
  options.priority = job_.settings.gradients.priority;
  options.timeline = &timeline_;
  options.names = parameter_names(layout());
  if (const auto& compression = job_.settings.gradients.compression) {
    tell_if_nothing_travels(team_.ranks, *compression);
    options.compressed = compressed_gradients(layout(), *compression, job_.settings.seed);
  }
  options.consume = team_.consume;
  if (!options.consume) {
    options.consume = [this](size_t first, std::span<const float> sums) {
      const Timed timed(timeline_, Timeline::Row::Computation, kUpdateSpan);
      noise_.add_sums(first, sums);
      state_.take(first, sums);
    };
  }
  return options;
}

PassesOptions StepComputation::passes_options() const {
  return {.division = division_,
          .exact = job_.settings.precision.exact,
          .joint = job_.settings.joint_batch_norm,
          .seed = job_.settings.seed};
}

/// Measures nothing if ranks have no leaves, if half floats or compressed gradients are too
/// imprecise for the subtraction, or if one team's sum is not the gradient of the step.
NoiseMeter::Setup StepComputation::noise_setup() const {
  const bool possible =
      team_.measures_noise && division_.num_leaves >= size_t(team_.ranks.size()) &&
      job_.settings.gradients.wire == DataType::Float32 && !job_.settings.gradients.compression;
  return {division_.global_batch, possible ? division_.num_leaves : 1, reducer_.num_leaves(),
          layout().trainable_size(), reducer_.consumes_shares() || team_.ranks.rank() == 0};
}

IndexRange StepComputation::leaves() const {
  return {team_.index * leaves_of_team(job_, team_) + reducer_.first_leaf(), reducer_.num_leaves()};
}

void StepComputation::forward(const StepPlan& plan, std::span<const Leaf> leaves) {
  use_weights();
  passes_->forward(leaves, plan.samples, plan.weight);
  reducer_.begin(plan.step, plan.epoch);
}

void StepComputation::backward(const StepPlan& plan, std::span<const Leaf> leaves,
                               const ReportSlot::OfRank& of_rank) {
  noise_.begin_step(plan.step, plan.samples);
  report_.begin_step({of_rank.wishes, of_rank.data_wait_s, float(reducer_.take_wait_s())});
  const float own_loss = passes_->backward(report_);
  reducer_.end();
  look_at(own_loss, plan, leaves);
}

void StepComputation::finish_sums() {
  reducer_.finish();
  if (!state_.waits_for_all()) return;
  const Timed update(timeline_, Timeline::Row::Computation, kUpdateSpan);
  state_.finish_update();
}

/// The sums of the last step still arrive: each layer waits for those of its weights.
void StepComputation::use_weights() {
  networks_.use_weights(state_.weights(), [this](size_t parameter) {
    if (parameter < layout().num_exchanged()) reducer_.wait(parameter);
  });
}

void StepComputation::look_at(float own_loss, const StepPlan& plan, std::span<const Leaf> leaves) {
  if (std::isfinite(own_loss) || divergence_) return;
  const bool in_data = std::ranges::any_of(leaves, [](const Leaf& leaf) {
    return std::ranges::any_of(leaf.images, [](float value) { return !std::isfinite(value); });
  });
  divergence_ = {plan.step + 1, passes_->diverged_in(), in_data};
}

void StepComputation::finish_update(uint64_t steps) {
  reducer_.finish();
  require_finite_update(steps);
  require_finite(layout(), state_.weights(), steps);
}

/// The message names the parameter that the gradients of this rank's leaves point to.
void StepComputation::require_finite_update(uint64_t steps) {
  if (state_.finite()) return;
  std::vector<std::span<const float>> gradients;
  for (size_t leaf = 0; leaf < reducer_.num_leaves(); ++leaf) {
    gradients.push_back(reducer_.gradients(leaf).first(layout().exchanged_size()));
  }
  fail_update(team_.ranks, layout(), gradients, state_.weights(), steps);
}

Inference StepComputation::inference() {
  if (!inference_) {
    inference_.emplace(job_.model, int64_t(kEvaluationBatch), Network::Mode::Inference,
                       networks_.layout());
  }
  return inference_with(*inference_, state_.result());
}

}  // namespace dlflow::runtime
