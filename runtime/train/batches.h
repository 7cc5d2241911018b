#pragma once

#include <memory>

#include "runtime/data/loader.h"
#include "runtime/timeline/timeline.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"

namespace dlflow::runtime {

/// The samples that a rank trains with, step by step.
class Batches {
 public:
  struct Setup {
    Division division;
    IndexRange leaves;     ///< this rank's leaves
    bool computes = true;  ///< false: this rank takes no steps
  };

  /// Collective over all ranks of `comm`; the arguments must outlive this.
  Batches(Communicator& comm, const TrainingJob& job, const TrainingData& data,
          const Normalization& normalization, const Setup& setup, Timeline& timeline);

  uint64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }
  void seek(uint64_t epoch, uint64_t step);

  /// Returns the samples of the next step.
  LocalBatch load();

  /// Whether load() returns without waiting.
  bool is_ready() const { return loader_.is_ready(); }

  /// The duration of the last load(), without work that was done ahead.
  float last_wait_s() const { return waited_.count(); }

 private:
  LoaderOptions loader_options(const Dataset& dataset, const Normalization& normalization,
                               const Setup& setup) const;

  // The order matters: the loader reads in the node's order.
  Communicator& comm_;
  const TrainingJob& job_;
  Timeline& timeline_;
  std::unique_ptr<EpochOrder> order_;
  Loader loader_;
  std::chrono::duration<float> waited_{0};
};

}  // namespace dlflow::runtime
