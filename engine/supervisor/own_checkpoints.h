#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/launch.h"

namespace dlflow {

/// Of a step that saves: a pass goes on from checkpoints of the work that it does itself. Those of
/// other work (a parent ran again and left something else) are put aside into the folder of the
/// attempt, as checkpoints-PASS. The work is noted beside the new ones, as checkpoints.of;
/// checkpoints without a note are of an earlier version, and kept. With other resources a job goes
/// on, since its user asked for that, but its result is neither that of these nor of those: why it
/// will not be reused is returned. Call it before the pass looks for its checkpoints. Throws Error.
/// \param fingerprint  of the job; an empty one says nothing.
std::optional<std::string> keep_own_checkpoints(const JobSpec& spec, const AttemptFiles& files,
                                                const std::string& fingerprint,
                                                std::span<const ParentResult> parents);

/// Whether this pass has put checkpoints aside. Then it takes no files of an earlier one over.
bool begins_anew(const AttemptFiles& files);

/// Notes that what the pass saves from now on is of no fingerprint, and why ("/data changed after
/// the run was planned"): a later pass that goes on from it has the same doubt, even if all is as
/// it was by then. Call it after keep_own_checkpoints(). Throws Error.
void doubt_checkpoints(const JobSpec& spec, const std::string& reason);

}  // namespace dlflow
