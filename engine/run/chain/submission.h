#pragma once

#include "engine/run/chain/chain_run.h"

namespace dlflow {

/// See submit_chain().
ChainResult submit_missing_jobs(ChainRun& run, const PlanAgain& again);

}  // namespace dlflow
