#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/normalization.h"
#include "runtime/train/split.h"
#include "runtime/train/trainer.h"

/// The part of a training before its first step. All calls are collective, and throw
/// Error{InvalidInput} on every rank if settings, model and data do not fit.
namespace dlflow::runtime {

/// `job`, the same on all ranks; layers that are not trained are frozen, weights to start from are
/// open.
TrainingJob prepared(Communicator& comm, TrainingJob job);

/// `data`, divided as `settings` say. `comm` must outlive the result.
TrainingData held_out(Communicator& comm, Dataset data, const TrainSettings& settings);

/// The scale and shift of each channel of `train`, which `job` trains on. Tokens stay as they are.
Normalization input_normalization(Communicator& comm, const TrainingJob& job, const Dataset& train);

}  // namespace dlflow::runtime
