#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/train/trainer.h"

/// Comparisons between ranks before they train together.
namespace dlflow::runtime {

/// `job`. Ranks that were given different things must not begin: throws Error{InvalidInput} on
/// every rank, naming what differs, also if the data does not fit the model. Collective.
TrainingJob same_on_all(Communicator& comm, TrainingJob job);

/// Ranks that compute differently must not begin: gradients are added number by number, so weights
/// must lie in memory alike; and where the sum is `exact`, `arithmetic` must be the same, or the
/// bits would depend on who computes what. Throws Error{InvalidInput} on every rank, naming the
/// ranks, how they compute and what to do. Collective.
void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact);

}  // namespace dlflow::runtime
