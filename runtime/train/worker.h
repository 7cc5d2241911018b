#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/compress/compressed_sum.h"
#include "runtime/cooperation/step.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/model_state.h"
#include "runtime/train/step_metrics.h"

namespace dlflow::runtime {

/// Wishes to this rank, and its reports, step by step.
struct WorkerHooks {
  std::function<StepReport()>
      wishes;  ///< what its report says beside the loss; called in every step
  /// A step is done; what is a mean is one over the ranks of the team.
  std::function<void(const StepMetrics& metrics)> stepped;
};

/// One rank's part of the training: its samples, its network, and its state of the model, which is
/// filled for the job's seed at first. Implementations: CpuWorker, LoneWorker, GpuWorker.
class Worker : public Stepper {
 public:
  virtual const WeightLayout& layout() const = 0;
  virtual size_t global_batch() const = 0;
  virtual uint64_t steps_per_epoch() const = 0;

  /// Build, instruction set and device: they decide the bits.
  virtual std::string arithmetic() const = 0;

  /// Goes on from `checkpoint`, where `updates` had been made. Every rank calls it. And how many
  /// have been made now.
  virtual void restore(const Checkpoint& checkpoint, uint64_t updates) = 0;
  virtual uint64_t updates() = 0;

  /// The next step is step `step` of epoch `epoch`.
  virtual void seek(uint64_t epoch, uint64_t step) = 0;

  /// Once a loss was no number on this rank, if that is known.
  virtual std::optional<Divergence> divergence() const = 0;

  /// Before the state is looked at as a whole, after `steps` of the run. Throws Diverged if a
  /// weight is no number.
  virtual void finish_update(uint64_t steps) = 0;

  /// What is saved and evaluated, in the layout, after finish_update(): the weights, or their mean.
  virtual std::span<const float> weights() = 0;
  virtual ModelState::OptimizerContent optimizer_content() = 0;

  /// By the running statistics, with weights() of now; of use until the next step.
  virtual Inference inference() = 0;

  /// The compression of gradients and its state, or null.
  virtual CompressedSum* compressed() { return nullptr; }

  /// NoiseMeter::take(), if there is one.
  virtual std::optional<double> take_noise_scale() { return {}; }

  /// Adds what it took to a summary.
  virtual void describe(Json& summary) const = 0;
};

struct TrainingJob;

/// Fills `weights`, in `layout`, with those that the training of `job` begins with: random numbers,
/// and those of the file that it starts from.
void first_weights(const TrainingJob& job, const WeightLayout& layout, std::span<float> weights);

}  // namespace dlflow::runtime
