#pragma once

#include <vector>

#include "base/json.h"
#include "runtime/train/trainer.h"

/// Measurements for a planner: `dlflow-train --profile-steps`. docs/contributor/runtime.md lists
/// the fields.
namespace dlflow::runtime {

/// Makes `steps` steps of `job` after a few unmeasured ones, then as many with half the samples, if
/// leaves can be halved, and measures how long these ranks take to sum gradients. Saves no
/// checkpoint and no metrics. The result, on every rank, has the fields layers, points, network,
/// parameters_bytes, optimizer and compute of a measurement; times are those of the calling rank.
///
/// Collective. Throws Error{InvalidInput} unless all ranks take every step together on CPUs, and as
/// train().
Json profile(Communicator& comm, TrainingJob job, uint64_t steps);

/// Measures all-reduces of these ranks with the options of `job`, from 1 KiB to 16 MiB: their
/// bytes, algorithm and seconds. Empty for one rank. Collective.
Json profile_network(Communicator& comm, const TrainingJob& job);

}  // namespace dlflow::runtime
