#pragma once

#include <string>

#include "base/json.h"
#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Mistakes in `resources:`, and the placement of a job's ranks on nodes.
namespace dlflow {

/// Describes two keys of `resources:` that contradict each other; empty if none do. Values that are
/// not known yet (expressions) contradict nothing.
/// \param resources  must have its shape
std::string contradiction_in(const Json& resources);

/// The number of a job's nodes; 0: the batch system decides.
int num_nodes(const Resources& resources, const Profile& profile);

/// The number of ranks on the fullest node; all of them if the batch system decides.
int max_ranks_on_node(const Resources& resources, const Profile& profile);

/// The number of ranks that certainly share a node: the batch system may place others one by one.
int ranks_together(const Resources& resources, const Profile& profile);

}  // namespace dlflow
