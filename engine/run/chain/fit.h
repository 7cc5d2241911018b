#pragma once

#include "engine/batch/cluster.h"
#include "engine/plan/plan.h"
#include "engine/run/chain/chain.h"

namespace dlflow {

/// Gives `plan` the limits of the cluster and each job its class, and checks that all of it may run
/// there. Throws Error{InvalidInput}, which names what may not.
ClusterLimits fit_to_cluster(Plan& plan, const ChainServices& services);

}  // namespace dlflow
