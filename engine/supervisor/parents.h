#pragma once

#include <vector>

#include "base/json.h"
#include "engine/decide/needed_inputs.h"
#include "engine/model/expression.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"

/// The results of a job's parents on disk, which decide whether it may run (P3) and what it may
/// refer to.
namespace dlflow {

/// The results of `spec.parents`, in their order. Throws Error{InvalidInput} naming a parent that
/// has not succeeded, since a job must never run on a failed parent, whatever the scheduler does.
/// Exceptions: the parent was allowed to fail, or the job always runs; then the caller has checked
/// that the parent is not at work any more.
std::vector<ParentResult> read_parents(const JobSpec& spec);

/// Whether the end of every parent is on record, which a network file system may show late.
bool have_ended(const std::vector<ParentRef>& parents);

/// Whether the job can run with the results of its parents that `references` mention.
Inputs judge(const std::vector<Reference>& references, const JobSpec& spec,
             const std::vector<ParentResult>& parents);

/// The value of steps.NAME.outputs.KEY, steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS (see
/// known_axes()): of the one parent of that step, or the list over all of them that left a result,
/// see is_list(). Throws Error{InvalidInput} naming the keys there are.
Json parent_value(const Reference& reference, const Json& element,
                  const std::vector<ParentResult>& parents);

}  // namespace dlflow
