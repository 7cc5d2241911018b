#pragma once

#include <string>
#include <string_view>

#include "engine/batch/cluster.h"

/// The limits that a cluster tells of itself. Nothing here fails: what is not found is 0 or empty.
namespace dlflow {

/// Of the lines that `qconf -sconf` prints: how large arrays may be, how many jobs there may be.
void add_configuration(ClusterLimits& limits, std::string_view qconf_sconf);

/// Queues and their hosts, from `qhost -q -xml`; a queue has as many cores on a host as it has
/// slots there. First of all "any", the default: Grid Engine chooses a queue that fits.
void add_queues(ClusterLimits& limits, std::string_view qhost_xml);

/// The hard walltimes of queues, from `qconf -sq QUEUE...`.
void add_walltimes(ClusterLimits& limits, std::string_view qconf_sq);

/// A profile of the cluster; see BatchSystem::detect_profile. `environments` are the parallel ones.
std::string gridengine_profile(const ClusterLimits& limits, const std::string& environments,
                               const std::string& wanted);

}  // namespace dlflow
