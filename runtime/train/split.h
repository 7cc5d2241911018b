#pragma once

#include "runtime/data/dataset.h"

namespace dlflow::runtime {

struct TrainingData {
  Dataset train, validation;
};

/// Holds `validation` samples out of `dataset`: which ones depends on (its size, `seed`) alone,
/// and both parts keep its order. Throws Error{InvalidInput} if nothing would be left to train on.
TrainingData split_off_validation(Dataset dataset, size_t validation, uint64_t seed);

}  // namespace dlflow::runtime
