#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/batch/allocation.h"

/// `dlflow job-exec BATCH-FILE BATCH TASK`: a job's script becomes this program on its node.
namespace dlflow {

/// Makes the attempt's folder, supervises its next pass, and asks for another one if the record
/// requires it. A pass that ended without a record (its node failed, or was taken away) counts as a
/// failed try, unless it had saved a checkpoint when it was asked to end; an attempt that has an
/// end is not run again, even if the job is restarted.
///
/// A second job of the same attempt (its submission was given up as lost) runs nothing while the
/// first one waits or runs: it has itself requeued, to end as the first did. So dependents of
/// either are right, and an attempt whose first job was lost continues in the second.
///
/// A task that several elements share runs their attempts one after the other, each with its own
/// record; a failure stops no other element.
///
/// Returns the exit status for the batch system: 0 if dependents of this job may run.
int job_exec(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task,
             const Allocation& allocation);

}  // namespace dlflow
