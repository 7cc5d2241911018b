#pragma once

#include <optional>

#include "engine/batch/batch_system.h"
#include "engine/plan/plan.h"

/// Refusals before anything is submitted, of what the batch system would refuse half-way, or queue
/// for ever.
namespace dlflow {

/// `profile` with what the cluster says where it says less, or where the profile leaves it open
/// (0): walltime, nodes and node shape of its partition, the size of an array, how many jobs there
/// may be. Scripts are made with this one: a time limit that is rounded up must not exceed the
/// partition's, nor memory that is raised for another try what a node has, since SLURM takes such a
/// job and never starts it.
Profile with_cluster_limits(Profile profile, const ClusterLimits& cluster);

/// What the batch system takes as one array, with the size that the profile names.
ArrayRules array_rules(const BatchSystem& system, const Profile& profile);

/// Checks every job of `plan` that will be submitted against its profile, and against the cluster
/// if it could be asked. Throws Error{InvalidInput} with all problems, each of which names the
/// limit, who sets it, the step and its place in the workflow, and what to do; matrix elements with
/// the same problem are told once. A matrix larger than an array
/// is no problem: it is split; nor are more jobs than may be submitted at a time: the rest waits.
void check_limits(const Plan& plan, const BatchSystem& system,
                  const std::optional<ClusterLimits>& cluster);

}  // namespace dlflow
