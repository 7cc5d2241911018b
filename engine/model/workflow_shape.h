#pragma once

#include "engine/model/shape.h"

/// The shape of a workflow file: every key, its type, its meaning.
namespace dlflow {

/// The shape of the file; `steps` holds anything, since the keys of a step depend on what it uses.
const Shape& workflow_shape();

/// The shape of a step; `with` holds anything: see StepKind::with.
const Shape& step_shape();

/// The shape of `resources:`.
const Shape& resources_shape();

}  // namespace dlflow
