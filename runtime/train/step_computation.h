#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/nn/arithmetic.h"
#include "runtime/nn/huge_buffer.h"
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

/// Computes steps on the CPU, with the other ranks of a team: from leaves to gradients, their sums
/// and the update of the model's state, which the ranks may have in common.
class StepComputation {
 public:
  /// Collective over all ranks, `comm`; what is given must outlive this.
  StepComputation(Communicator& comm, const Role& role, const TrainingJob& job,
                  const Division& division, Timeline& timeline);

  /// Of this rank.
  IndexRange leaves() const;

  /// One step, in which the team has samples. Returns the team's sums. The update of all ranks goes
  /// on into the next step; one team's is over, and a loss that is no number says, when all meet,
  /// that it left a weight that is none.
  ReportSlot::Sums compute(const StepPlan& plan, std::span<const Leaf> leaves,
                           const ReportSlot::OfRank& of_rank);

  /// Waits for the update of the last of `steps` steps. Throws Diverged if a weight is no number.
  void finish_update(uint64_t steps);

  ModelState& state() { return state_; }
  const ModelState& state() const { return state_; }
  const WeightLayout& layout() const { return *networks_.layout(); }
  const std::optional<Divergence>& divergence() const { return divergence_; }
  Compute compute_type() const;
  std::string arithmetic() const;
  Inference inference();
  CompressedSum* compressed() { return reducer_.compressed(); }
  std::optional<double> take_noise_scale() { return noise_.take(); }
  std::optional<double> gradient_norm() const { return noise_.gradient_norm(); }

  /// That of the last step, if others make the update.
  std::span<const float> gradient() { return pushed_.floats(); }

 private:
  NetworkSet make_networks(Communicator& comm) const;
  ReducerOptions reducer_options();
  PassesOptions passes_options() const;
  NoiseMeter::Setup noise_setup() const;

  void use_weights();
  void begin_update(const StepPlan& plan);
  void consume(size_t first, std::span<const float> sums);
  void finish_own_update();
  void look_at(float own_loss, const StepPlan& plan, std::span<const Leaf> leaves);
  ReportSlot::Sums report();
  void require_finite_update(uint64_t steps);

  const Role role_;
  const TrainingJob& job_;
  const Division division_;
  Timeline& timeline_;

  // In this order: networks say how weights lie, by which gradients are summed; what is summed, and
  // how, decides who measures noise and who has the state in common.
  NetworkSet networks_;
  Reducer reducer_;
  NoiseMeter noise_;
  ReportSlot report_;
  std::unique_ptr<Passes> passes_;
  ModelState state_;

  HugeBuffer pushed_;  // the gradient of a step whose update others make
  std::optional<NetworkSet> inference_;
  std::optional<Divergence> divergence_;
};

}  // namespace dlflow::runtime
