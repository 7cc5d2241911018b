#pragma once

#include <cstddef>
#include <cstdint>

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
struct StepPlanner {
  bool own_mean;  ///< the rank follows the mean over its own samples, not over those of all ranks
  uint64_t steps_per_epoch;
  Schedule schedule;

  StepPlan plan(const LocalBatch& batch) const;
};

}  // namespace dlflow::runtime
