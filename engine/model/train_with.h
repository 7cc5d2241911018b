#pragma once

#include "engine/model/shape.h"

namespace dlflow {

/// `with:` of a train step. runtime/settings reads the same keys; with_table_test.cpp compares.
Shape train_with();

}  // namespace dlflow
