#pragma once

#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/parents.h"

/// The values of a job, from its plan and from the results of its parents.
namespace dlflow {

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
