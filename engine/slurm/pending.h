#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "engine/batch/batch_job.h"

namespace dlflow {

/// Why SLURM does not start a job yet, for people: "waits for free nodes, starts in about 2:10:00".
/// Empty if it waits for other jobs, which the workflow can name better.
/// \param drained_nodes  returns the nodes out of service, and why; called only if that may be the
/// cause.
std::string slurm_pending_in_words(const BatchJob& job, Time now,
                                   const std::function<std::string()>& drained_nodes);

/// Whether the job stays in the queue until it is released.
bool is_held_in_slurm(const BatchJob& job);

}  // namespace dlflow
