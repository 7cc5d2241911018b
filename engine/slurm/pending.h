#pragma once

#include <string>

#include "base/clock.h"
#include "engine/batch/batch_job.h"

namespace dlflow {

/// Why SLURM lets a job wait, for people: "waits for free nodes, starts in about 2:10:00". Empty if
/// it waits for other jobs: for which is known better from the workflow.
std::string slurm_pending_in_words(const BatchJob& job, Time now);

}  // namespace dlflow
