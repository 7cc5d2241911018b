#pragma once

#include <vector>

#include "engine/model/shape.h"

namespace dlflow {

/// `with:` of a step that reads data for networks.
Shape data_step(std::vector<Field> fields);

Field scratch_field();
Field loader_threads_field();

/// `with:` of a train step. runtime/settings reads the same keys; with_table_test.cpp compares.
Shape train_with();

/// Whether every rank computes a part of each step, as many parts as the leaves, and so the number
/// of ranks changes no bit.
bool trains_exactly(const Json& with);

}  // namespace dlflow
