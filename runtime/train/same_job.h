#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/train/trainer.h"

/// Comparisons between ranks before they train together.
namespace dlflow::runtime {

/// Returns `job`. Throws Error{InvalidInput} on every rank, naming the difference, if ranks were
/// given different jobs or if the data does not fit the model. Collective.
TrainingJob same_on_all(Communicator& comm, TrainingJob job);

/// Requires that all ranks compute alike. Gradients are added element by element, so weights must
/// have the same layout in memory. If the sum is `exact`, `arithmetic` must be the same, or the
/// bits would depend on who computes which leaf. Throws Error{InvalidInput} on every rank, naming
/// the ranks, how they compute and what to do. Collective.
void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact);

}  // namespace dlflow::runtime
