#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/nn/arithmetic.h"
#include "runtime/reduce/reducer.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/model_state.h"
#include "runtime/train/network_set.h"
#include "runtime/train/noise_meter.h"
#include "runtime/train/passes.h"
#include "runtime/train/report_slot.h"
#include "runtime/train/step_plan.h"
#include "runtime/train/trainer.h"

namespace dlflow::runtime {

/// Computes steps on the CPU together with the other ranks of a team: the gradients of leaves,
/// their sums, and the update of the model's state, which the ranks may share.
class StepComputation {
 public:
  using Consume = std::function<void(size_t first, std::span<const float> sums)>;

  struct Team {
    Communicator& ranks;
    size_t index = 0;             ///< among all teams; they divide the leaves of a step
    bool measures_noise = false;  ///< possible if the team is all ranks
    Consume consume = {};         ///< takes the sums of gradients; empty: they change the state
  };

  /// Collective over all ranks of `comm`; the arguments must outlive this.
  StepComputation(Communicator& comm, const Team& team, const TrainingJob& job,
                  const Division& division, Timeline& timeline);

  /// The leaves of this rank.
  IndexRange leaves() const;

  /// The first half of a step in which the team has samples. The sums of the previous step have
  /// arrived when it returns.
  void forward(const StepPlan& plan, std::span<const Leaf> leaves);

  /// The second half, after state() has begun its update. Each sum of gradients changes the state
  /// or is consumed as soon as it arrives, possibly after this returns.
  void backward(const StepPlan& plan, std::span<const Leaf> leaves,
                const ReportSlot::OfRank& of_rank);

  /// Waits for all sums of the step.
  void finish_sums();

  /// The report of the step, summed over the team's ranks.
  ReportSlot::Sums report() { return report_.read(state_.report()); }

  /// Throws Diverged if a weight is not finite. Call after forward() or finish_sums().
  void require_finite_update(uint64_t steps);

  /// Waits for the update of the last of `steps` steps. Throws Diverged if a weight is not finite.
  void finish_update(uint64_t steps);

  ModelState& state() { return state_; }
  const ModelState& state() const { return state_; }
  const WeightLayout& layout() const { return *networks_.layout(); }
  const std::optional<Divergence>& divergence() const { return divergence_; }
  Compute compute_type() const;
  std::string arithmetic() const;
  Inference inference();
  std::vector<size_t> bucket_bytes() const { return reducer_.bucket_bytes(); }
  CompressedSum* compressed() { return reducer_.compressed(); }
  std::optional<double> take_noise_scale() { return noise_.take(); }
  std::optional<double> gradient_norm() const { return noise_.gradient_norm(); }

 private:
  NetworkSet make_networks(Communicator& comm) const;
  ReducerOptions reducer_options();
  PassesOptions passes_options() const;
  NoiseMeter::Setup noise_setup() const;

  void use_weights();
  void look_at(float own_loss, const StepPlan& plan, std::span<const Leaf> leaves);

  const Team team_;
  const TrainingJob& job_;
  const Division division_;
  Timeline& timeline_;

  // The order matters: the networks define the layout of weights, by which gradients are summed;
  // the sums decide which ranks measure noise and which share the state.
  NetworkSet networks_;
  Reducer reducer_;
  NoiseMeter noise_;
  ReportSlot report_;
  std::unique_ptr<Passes> passes_;
  ModelState state_;

  std::optional<NetworkSet> inference_;
  std::optional<Divergence> divergence_;
};

}  // namespace dlflow::runtime
