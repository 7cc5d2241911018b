#pragma once

#include <string>
#include <string_view>

#include "engine/batch/batch_system.h"

/// The limits that a cluster reports. The parsers do not fail: missing values are 0 or empty.
namespace dlflow {

/// Reads the limits on arrays and on the number of jobs from `qconf -sconf`.
void add_configuration(ClusterLimits& limits, std::string_view qconf_sconf);

/// Reads queues and their hosts from `qhost -q -xml`; a queue has as many cores on a host as slots.
/// The first entry is "any", the default: Grid Engine chooses a fitting queue.
void add_queues(ClusterLimits& limits, std::string_view qhost_xml);

/// Reads the hard walltimes of queues from `qconf -sq QUEUE...`.
void add_walltimes(ClusterLimits& limits, std::string_view qconf_sq);

/// A profile of the cluster; see BatchSystem::detect_profile. \param environments  parallel ones
std::string gridengine_profile(const ClusterLimits& limits, const std::string& environments,
                               const std::string& wanted);

}  // namespace dlflow
