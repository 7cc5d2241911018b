#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/normalization.h"
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

}  // namespace dlflow::runtime
