#pragma once

#include <string>
#include <vector>

#include "engine/run/chain/chain_run.h"

namespace dlflow {

/// See cancel_chain(). \param names  of steps or jobs; none: all.
CancelResult cancel_jobs(ChainRun& run, const std::vector<std::string>& names);

}  // namespace dlflow
