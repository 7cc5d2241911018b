#pragma once

#include <vector>

#include "engine/model/workflow.h"

/// The sources of the `stage` steps of a workflow.
namespace dlflow {

struct StageSource {
  const Step* step;  ///< of the workflow
  Json source;       ///< as `with.sources` has it, all that is known before a run evaluated
};

/// Each source once, in the order of the workflow.
std::vector<StageSource> stage_sources(const Workflow& workflow);

}  // namespace dlflow
