#pragma once

#include <vector>

#include "engine/model/shape.h"

/// Keys of `with:` of steps that read data for networks.
namespace dlflow {

/// `with:` of such a step.
Shape data_step(std::vector<Field> fields);

Field scratch_field();
Field loader_threads_field();

}  // namespace dlflow
