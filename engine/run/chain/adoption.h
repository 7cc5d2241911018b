#pragma once

#include <string>
#include <vector>

#include "engine/run/chain/chain_run.h"

namespace dlflow {

/// Looks up the batches of jobs of which it is not known whether the batch system has them, because
/// a kill or a lost answer came between their intent and their id. What it has of them is Queued
/// then, under its id; what it does not have stays Submitting. Returns the names of those found.
/// Throws as BatchSystem::find_by_name.
std::vector<std::string> adopt_doubtful(ChainRun& run);

}  // namespace dlflow
