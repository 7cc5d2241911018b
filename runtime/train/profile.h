#pragma once

#include "base/json.h"
#include "runtime/train/trainer.h"

namespace dlflow::runtime {

/// The measurement of `dlflow-train --profile-steps` (fields: docs/contributor/runtime.md). Makes
/// `steps` steps of `job` after a few that are not measured, then as many with half the samples if
/// leaves can be halved, and measures sums of gradients and, for fast training, methods of
/// compression. Saves neither a checkpoint nor metrics. Times are those of the calling rank.
///
/// Collective. Throws Error{InvalidInput} unless all ranks take every step together on CPUs, and as
/// train().
Json profile(Communicator& comm, TrainingJob job, uint64_t steps);

}  // namespace dlflow::runtime
