#pragma once

#include "engine/run/chain/chain_run.h"
#include "engine/run/chain/lists.h"

namespace dlflow {

/// See submit_chain(). \param lists  of the steps that have left one. \param planned  for these
/// jobs, perhaps in other states
ChainResult submit_missing_jobs(ChainRun& run, const PlanAgain& again, const FoundLists& lists,
                                BatchPlan planned);

}  // namespace dlflow
