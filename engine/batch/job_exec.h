#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/batch/allocation.h"

/// `dlflow job-exec BATCH-FILE BATCH TASK`: what a job's script becomes on its node.
namespace dlflow {

/// Makes the attempt's folder, supervises its next pass, and asks for another one if the record
/// says so. A pass that ended without a record (its node failed, or was taken away) counts as a
/// failed try, unless it had saved a checkpoint when it was told to end; an attempt that has an end
/// is not run again, whoever restarts the job.
///
/// A second job of the same attempt (its submission was taken for lost) runs nothing while
/// the first one waits or runs: it has itself requeued, to end as the first did. So dependents of
/// either are right, and an attempt whose first job was lost goes on in the second.
///
/// A task that several elements share runs their attempts one after the other, each with its own
/// record; what fails stops nobody else.
///
/// Returns the exit status for the batch system: 0 if what waits for this job may run.
int job_exec(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task,
             const Allocation& allocation);

}  // namespace dlflow
