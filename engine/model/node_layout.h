#pragma once

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// The placement of a job's ranks on nodes.
namespace dlflow {

/// The number of a job's nodes; 0: the batch system decides.
int num_nodes(const Resources& resources, const Profile& profile);

/// The number of ranks on the fullest node; all of them if the batch system decides.
int max_ranks_on_node(const Resources& resources, const Profile& profile);

/// The number of ranks that certainly share a node: the batch system may place others one by one.
int ranks_together(const Resources& resources, const Profile& profile);

}  // namespace dlflow
