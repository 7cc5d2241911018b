#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/nn/weight_layout.h"

namespace dlflow::runtime {

/// Ranks that compute differently must not begin: gradients are added number by number, so weights
/// must lie in memory alike; and where the sum is `exact`, `arithmetic` must be the same, or the
/// bits would depend on who computes what. Throws Error{InvalidInput} on every rank, naming the
/// ranks, how they compute and what to do. Collective.
void require_same_arithmetic(Communicator& comm, const WeightLayout& layout,
                             const std::string& arithmetic, bool exact);

}  // namespace dlflow::runtime
