#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

/// Parameters that are updated in another way than the rest.
struct ParameterGroup {
  std::string match;                   ///< pattern of their names, as fnmatch(3) has it
  double lr_multiplier = 1;            ///< what their learning rate is multiplied by
  std::optional<double> weight_decay;  ///< instead of that of the others

  bool operator==(const ParameterGroup&) const = default;
};

/// The first group that has the parameter `name`, or null.
const ParameterGroup* group_of(std::span<const ParameterGroup> groups, const std::string& name);

/// The settings of the update.
struct UpdateSettings {
  OptimizerOptions optimizer;
  bool decays_vectors = true;       ///< weight_decay is for biases and batch normalisation, too
  std::optional<double> clip_norm;  ///< what the gradient's norm is limited to
  bool shard_optimizer = false;     ///< each rank keeps the optimizer's state of its share alone
  size_t accumulate = 1;            ///< batches whose gradients make one update
  RateScaling lr_scaling = RateScaling::None;
  size_t base_batch = 1;  ///< that the learning rate is for, if it is scaled
  std::vector<ParameterGroup> groups = {};
  double ema = 0;  ///< decay of the running mean of the weights, which is the result; 0: none

  bool operator==(const UpdateSettings&) const = default;
};

/// Reads the keys of a train step from `optimizer` to `base_batch`, and `groups`
/// (docs/user/format/train.md).
UpdateSettings read_update(WithReader& with);

}  // namespace dlflow::runtime
