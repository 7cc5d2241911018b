#pragma once

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// How the ranks of a job lie on nodes.
namespace dlflow {

/// How many nodes a job is given; 0: the batch system decides.
int num_nodes(const Resources& resources, const Profile& profile);

/// Ranks on the fullest node; all of them if the batch system decides.
int max_ranks_on_node(const Resources& resources, const Profile& profile);

/// Ranks that are on one node for sure: the batch system may lay out others one by one.
int ranks_together(const Resources& resources, const Profile& profile);

}  // namespace dlflow
