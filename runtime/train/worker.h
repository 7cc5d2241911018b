#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/compress/compressed_sum.h"
#include "runtime/cooperation/step.h"
#include "runtime/train/divergence.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/model_state.h"

namespace dlflow::runtime {

class Recording;
struct StepMetrics;
struct TrainingData;
struct TrainingJob;

/// Called in every step: for this rank's requests, and with the step's results.
struct WorkerHooks {
  std::function<StepReport()>
      wishes;  ///< returns the requests in this rank's report, all but the loss
  /// Called after each step; means are over the ranks of the team.
  std::function<void(const StepMetrics& metrics)> stepped;
};

/// One rank's part of the training: its samples, its network, and its state of the model, which
/// begins with the weights of the job's seed. Implementations: CpuWorker, LoneWorker, GpuWorker.
class Worker : public Stepper {
 public:
  virtual const WeightLayout& layout() const = 0;
  virtual size_t global_batch() const = 0;
  virtual uint64_t steps_per_epoch() const = 0;

  /// Build, instruction set and device, which decide the bits.
  virtual std::string arithmetic() const = 0;

  /// restore() continues from `checkpoint`, saved after `updates` updates; every rank calls it.
  /// updates() returns how many have been made.
  virtual void restore(const Checkpoint& checkpoint, uint64_t updates) = 0;
  virtual uint64_t updates() = 0;

  /// The next step is step `step` of epoch `epoch`.
  virtual void seek(uint64_t epoch, uint64_t step) = 0;

  /// Where a loss first was NaN or infinite on this rank, if known.
  virtual std::optional<Divergence> divergence() const = 0;

  /// Must be called before the state is read as a whole, after `steps` steps of the run. Throws
  /// Diverged if a weight is NaN or infinite.
  virtual void finish_update(uint64_t steps) = 0;

  /// The weights to save and evaluate (or their running mean), in the layout, after
  /// finish_update().
  virtual std::span<const float> weights() = 0;
  virtual ModelState::OptimizerContent optimizer_content() = 0;

  /// Returns inference with weights() and running statistics; valid until the next step.
  virtual Inference inference() = 0;

  /// The compression of gradients and its state, or null.
  virtual CompressedSum* compressed() { return nullptr; }

  /// Returns NoiseMeter::take(), if there is a meter.
  virtual std::optional<double> take_noise_scale() { return {}; }

  /// Adds its measurements to a summary.
  virtual void describe(Json& summary) const = 0;
};

/// Returns a worker on this rank's GPU, which holds weights, gradients and velocities
/// (runtime/gpu/replica.h). Its checkpoints have the same content as a CPU worker's. Collective
/// over all ranks of `comm`; the arguments must outlive the result. Throws what GpuReplica throws.
std::unique_ptr<Worker> make_gpu_worker(Communicator& comm, const TrainingJob& job,
                                        const TrainingData& data,
                                        const Normalization& normalization, Recording& recording,
                                        WorkerHooks hooks);

/// Fills `weights`, in `layout`, with the first weights of `job`: random numbers, and the tensors
/// of the file that it starts from.
void first_weights(const TrainingJob& job, const WeightLayout& layout, std::span<float> weights);

}  // namespace dlflow::runtime
