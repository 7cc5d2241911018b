#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "engine/batch/batch_job.h"

namespace dlflow {

/// Why SLURM lets a job wait, for people: "waits for free nodes, starts in about 2:10:00". Empty if
/// it waits for other jobs: for which is known better from the workflow.
/// \param drained_nodes  names the nodes out of service, and why; called only if that may explain
/// it.
std::string slurm_pending_in_words(const BatchJob& job, Time now,
                                   const std::function<std::string()>& drained_nodes);

/// Whether the job stays in the queue until somebody releases it.
bool is_held_in_slurm(const BatchJob& job);

}  // namespace dlflow
