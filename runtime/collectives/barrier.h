#pragma once

#include "runtime/collectives/link.h"

namespace dlflow::runtime {

/// Ends once every rank has started it. Collective. lg P messages per rank, of no bytes.
/// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
/// Int. J. Parallel Programming 17 (1988).
Task barrier(Link link);

}  // namespace dlflow::runtime
