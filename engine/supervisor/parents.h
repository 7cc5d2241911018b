#pragma once

#include <string>
#include <vector>

#include "engine/decide/needed_inputs.h"
#include "engine/model/expression.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"

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

/// Thrown by resolve(): the job does not run, and neither do the jobs that need it.
struct Skip {
  std::string reason;
};

/// Thrown by resolve(): a result that the job refers to is missing.
struct Block {
  std::string reason;
};

/// Throws Skip, Block, or Error{InvalidInput} for an expression that has no value.
ResolvedJob resolve(const JobSpec& spec, const std::vector<ParentResult>& parents);

}  // namespace dlflow
