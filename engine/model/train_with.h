#pragma once

#include <vector>

#include "engine/model/shape.h"

namespace dlflow {

/// The shape of `with:` of a step that reads data for networks.
Shape data_step(std::vector<Field> fields);

Field scratch_field();
Field loader_threads_field();

/// `with:` of a train step. with_table_test.cpp compares these keys with those of runtime/settings.
Shape train_with();

/// Whether training divides each step into leaves that ranks share, so that the number of ranks
/// changes no bit of the result.
bool trains_exactly(const Json& with);

}  // namespace dlflow
