#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"

namespace dlflow::runtime {

struct TrainingData {
  Dataset train, validation;
};

/// Holds `validation` samples out of `dataset`. The choice depends only on its size and `seed`, and
/// both parts keep its order. The ranks of a node share the list of those samples, the only memory
/// that the parts take. Throws Error{InvalidInput} if nothing would be left to train on.
///
/// If the dataset has its own validation split, that one is held out; `validation` must then be 0.
///
/// Collective, with the same arguments on all ranks. `comm` must outlive the result.
TrainingData split_off_validation(Communicator& comm, Dataset dataset, size_t validation,
                                  uint64_t seed);

}  // namespace dlflow::runtime
