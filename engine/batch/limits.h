#pragma once

#include <optional>

#include "engine/batch/batch_system.h"
#include "engine/batch/batches.h"
#include "engine/plan/plan.h"

/// Refuses, before anything is submitted, jobs that the batch system would refuse half-way, or
/// queue forever.
namespace dlflow {

/// `profile` with the cluster's limits where they are lower, or where the profile sets none (0):
/// walltime, nodes and node shape of its partition, the size of an array, the number of jobs.
/// Scripts are made with this profile: SLURM accepts, and never starts, a job whose rounded time
/// limit exceeds the partition's, or whose raised memory exceeds a node's.
Profile with_cluster_limits(Profile profile, const ClusterLimits& cluster);

/// The submissions of jobs with this `standing`: those of `planned`, if they are for the same, else
/// `planned` gets them.
const std::vector<PlannedBatch>& batches_for(const Plan& plan,
                                             const std::vector<Standing>& standing,
                                             const BatchSystem& system, BatchPlan& planned);

/// Checks every job of `plan` that will be submitted against its profile, and against the cluster
/// if its limits are known. Throws Error{InvalidInput} with all problems, each of which names the
/// limit, its owner, the step and its place in the workflow, and the remedy; matrix elements with
/// the same problem are reported once. A matrix larger than an array is no problem: it is split;
/// nor are more jobs than may be submitted at a time: the rest waits. Returns the checked
/// submissions.
BatchPlan check_limits(const Plan& plan, const BatchSystem& system,
                       const std::optional<ClusterLimits>& cluster);

}  // namespace dlflow
