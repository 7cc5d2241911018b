#pragma once

#include "engine/model/shape.h"

/// The shape of a workflow file: every key, its type, its meaning.
namespace dlflow {

/// Of the file; `steps` holds anything, since what a step may have depends on what it uses.
const Shape& workflow_shape();

/// Of a step; `with` holds anything: see StepKind::with.
const Shape& step_shape();

/// Of `resources:`.
const Shape& resources_shape();

}  // namespace dlflow
