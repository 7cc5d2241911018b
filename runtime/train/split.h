#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"

namespace dlflow::runtime {

struct TrainingData {
  Dataset train, validation;
};

/// Holds `validation` samples out of `dataset`: which ones depends on (its size, `seed`) alone,
/// and both parts keep its order. The ranks of a node have the list of those samples in common; it
/// is all that either part takes. Throws Error{InvalidInput} if nothing would be left to train on.
///
/// A dataset with a validation split of its own is divided between the two; `validation` must be 0
/// then.
///
/// Collective, with the same arguments on all ranks. `comm` must outlive the result.
TrainingData split_off_validation(Communicator& comm, Dataset dataset, size_t validation,
                                  uint64_t seed);

}  // namespace dlflow::runtime
