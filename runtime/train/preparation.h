#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/data/normalization.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"

/// The part of a training before its first step. All calls are collective, and throw
/// Error{InvalidInput} on every rank if settings, model and data do not fit together.
namespace dlflow::runtime {

/// Returns `job`, the same on all ranks, with untrained layers frozen and start weights opened.
TrainingJob prepared(Communicator& comm, TrainingJob job);

/// Returns `data`, divided as `settings` require. `comm` must outlive the result.
TrainingData held_out(Communicator& comm, Dataset data, const TrainSettings& settings);

/// Returns the scale and shift of each channel of `train`, which `job` trains on; for tokens, no
/// change.
Normalization input_normalization(Communicator& comm, const TrainingJob& job, const Dataset& train);

/// Requires that all ranks compute alike. Gradients are added element by element, so weights must
/// have the same layout in memory. If the sum is `exact`, `arithmetic` must be the same, or the
/// bits would depend on who computes which leaf. Throws Error{InvalidInput} on every rank, naming
/// the ranks, how they compute and what to do. Collective.
void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact);

}  // namespace dlflow::runtime
