#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/data/loader.h"
#include "runtime/optim/schedule.h"

namespace dlflow::runtime {

/// The plan of a step, made before it is computed.
struct StepPlan {
  uint64_t epoch = 0;
  uint64_t step = 0;            ///< in the run, from 0
  size_t all_samples = 0;       ///< over all ranks
  size_t own_samples = 0;       ///< on this rank
  size_t samples = 0;           ///< the team follows their mean loss; 0: it skips the step
  size_t weight = 0;            ///< LocalBatch::global_weight(), or `samples` with `own_mean`
  size_t tokens = 0;            ///< for texts of different lengths: over all ranks
  double learning_rate = 0;     ///< for the update
  double rate_among_ranks = 0;  ///< OwnStep::rate
};

/// Plans the steps of one rank.
class StepPlanner {
 public:
  /// \param own_mean  the rank follows the mean over its own samples, not over those of all ranks
  StepPlanner(bool own_mean, uint64_t steps_per_epoch, Schedule schedule)
      : own_mean_(own_mean), steps_per_epoch_(steps_per_epoch), schedule_(std::move(schedule)) {}

  StepPlan plan(const LocalBatch& batch) const;

 private:
  bool own_mean_;
  uint64_t steps_per_epoch_;
  Schedule schedule_;
};

}  // namespace dlflow::runtime
