#pragma once

#include <vector>

#include "base/json.h"
#include "runtime/train/trainer.h"

/// Measurements for a planner: `dlflow-train --profile-steps`. docs/contributor/runtime.md has the
/// fields.
namespace dlflow::runtime {

/// Makes `steps` steps of `job` after a few that are not measured, then as many with half the
/// samples, if leaves can be halved, and measures how long these ranks take to sum gradients.
/// Nothing is saved: neither a checkpoint nor metrics. The result, on every rank, has the fields
/// layers, points, network, parameters_bytes, optimizer and compute of a measurement; times are
/// those of the rank that calls it.
///
/// Collective. Throws Error{InvalidInput} if steps are not those of all ranks together on CPUs, and
/// as train().
Json profile(Communicator& comm, TrainingJob job, uint64_t steps);

/// The all-reduces of these ranks, as `job` asks for them: their bytes, algorithm and seconds, from
/// 1 KiB to 16 MiB. Empty for one rank. Collective.
Json profile_network(Communicator& comm, const TrainingJob& job);

}  // namespace dlflow::runtime
