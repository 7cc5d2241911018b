#pragma once

#include <optional>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/train/with_reader.h"

namespace dlflow::runtime {

/// The settings of the update.
struct UpdateSettings {
  OptimizerOptions optimizer;
  bool decays_vectors = true;       ///< weight_decay is for biases and batch normalisation, too
  std::optional<double> clip_norm;  ///< what the gradient's norm is limited to
  bool shard_optimizer = false;     ///< each rank keeps the optimizer's state of its share alone
  size_t accumulate = 1;            ///< batches whose gradients make one update
  RateScaling lr_scaling = RateScaling::None;
  size_t base_batch = 1;  ///< that the learning rate is for, if it is scaled

  bool operator==(const UpdateSettings&) const = default;
};

/// Reads the keys of a train step from `optimizer` to `base_batch` (docs/user/workflow-format.md).
UpdateSettings read_update(WithReader& with);

}  // namespace dlflow::runtime
