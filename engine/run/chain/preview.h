#pragma once

#include <vector>

#include "engine/report/chain_text.h"
#include "engine/run/chain/chain.h"

namespace dlflow {

/// The submissions that starting `plan` would make, in their order. Checks the plan against the
/// limits of profile and cluster as create_chain() does, and throws the same; nothing is written.
/// The run has no folder yet: in the scripts RUN stands for its name, and JOB1, JOB2 and so on for
/// the numbers that the batch system will give.
std::vector<PreviewedBatch> preview_chain(Plan plan, const ChainServices& services);

}  // namespace dlflow
