#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/expression.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/needed_inputs.h"

/// The results of a job's parents on disk, which decide whether it may run (P3) and what it may
/// refer to.
namespace dlflow {

/// What `spec.parents` left, in their order. Throws Error{InvalidInput} naming a parent that has
/// not succeeded: a job must never run on a failed parent, whatever the scheduler thinks, unless
/// that was allowed to fail, or the job always runs. Of such a one who calls knows that it is not
/// at work any more.
std::vector<ParentResult> read_parents(const JobSpec& spec);

/// Whether the end of every parent is on record; on a network file system that may take a while to
/// show.
bool have_ended(const std::vector<ParentRef>& parents);

/// Whether the job can run with what the parents left that `references` mention.
Inputs judge(const std::vector<Reference>& references, const JobSpec& spec,
             const std::vector<ParentResult>& parents);

/// The value of steps.NAME.outputs.KEY, steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS (see
/// known_axes()): of the one parent of that step, or the list over all of them that left something,
/// see is_list(). Throws Error{InvalidInput} naming the keys there are.
Json parent_value(const Reference& reference, const Json& element,
                  const std::vector<ParentResult>& parents);

}  // namespace dlflow
