#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

/// Parameters that are updated differently from the rest.
struct ParameterGroup {
  std::string match;                   ///< pattern of their names, as in fnmatch(3)
  double lr_multiplier = 1;            ///< factor of their learning rate
  std::optional<double> weight_decay;  ///< overrides the usual one

  bool operator==(const ParameterGroup&) const = default;
};

/// The first group that contains the parameter `name`, or null.
const ParameterGroup* group_of(std::span<const ParameterGroup> groups, const std::string& name);

/// The settings of the update.
struct UpdateSettings {
  OptimizerOptions optimizer;
  bool decays_vectors = true;       ///< weight_decay also applies to biases and batch normalisation
  std::optional<double> clip_norm;  ///< limit of the gradient's norm
  bool shard_optimizer = false;     ///< each rank only keeps the optimizer state of its share
  size_t accumulate = 1;            ///< batches whose gradients are combined for one update
  RateScaling lr_scaling = RateScaling::None;
  size_t base_batch = 1;  ///< batch size that lr is meant for, if it is scaled
  std::vector<ParameterGroup> groups = {};
  double ema = 0;  ///< decay of the running mean of weights, the result of training; 0: none

  bool operator==(const UpdateSettings&) const = default;
};

/// Reads the keys of a train step from `optimizer` to `base_batch`, and `groups`
/// (docs/user/format/train.md).
UpdateSettings read_update(WithReader& with);

}  // namespace dlflow::runtime
