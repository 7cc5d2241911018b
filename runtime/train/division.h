#pragma once

#include <cstddef>

#include "runtime/data/shard.h"
#include "runtime/nn/model.h"
#include "runtime/settings/train_settings.h"

/// The division of a training's samples into steps and leaves.
namespace dlflow::runtime {

/// The ranks that compute. The ranks of a team take each step together.
struct Teams {
  size_t count = 1;
  int size = 1;
  bool own_mean = false;  ///< each team follows its own mean loss; the last batch is spread

  int num_ranks() const { return int(count) * size; }
};

/// Divides `num_samples` samples. Throws Error{InvalidInput} if there would be no step, or if a
/// batch normalisation of `model` would be over one value.
Division division_of(const TrainSettings& settings, const Model& model, size_t num_samples,
                     const Teams& teams);

}  // namespace dlflow::runtime
