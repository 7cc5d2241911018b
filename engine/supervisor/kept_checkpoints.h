#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/supervisor/launch.h"

/// JOB/checkpoints.kept: the states of $DLFLOW_CHECKPOINTS with which the last passes of a command
/// began, at most two, for when the newest cannot be read.
///
/// A program may be killed while it writes its only checkpoint over the one before. Then the next
/// pass fails on half a file, and so does each one after it. So a pass keeps what it begins with; a
/// file that was being written at its end is put back, and a pass that fails before it has saved
/// anything is followed by one from the state before.
///
/// The copies share their blocks with the originals where the file system can, and are real ones
/// elsewhere, up to 8 GiB; beyond that they are further names of the same files, which is enough
/// for programs that write under another name and rename. Checkpoints of dlflow's own format are
/// not kept: they prove themselves, and the one before is taken if that fails.
namespace dlflow {

/// Keeps the present state, if there is one and it differs from the last that was kept.
/// \param content  saved_content() of it.
void keep_checkpoints(const JobSpec& spec, const std::string& content);

/// Replaces the present state by the one before the last that was kept; the present one moves to
/// attempt-N/checkpoints-PASS-unread. False if there is none.
bool put_back_checkpoints(const JobSpec& spec, const AttemptFiles& files);

/// Restores the files of `torn`, names below $DLFLOW_CHECKPOINTS, from the last state that was
/// kept, or removes them; the incomplete ones move to attempt-N/checkpoints-PASS-torn.
void put_back_files(const JobSpec& spec, const AttemptFiles& files,
                    const std::set<std::filesystem::path>& torn);

/// The consequence of `end`: a command that fails before it has saved anything may have failed on
/// its checkpoint, so it resumes from the state before.
/// \param content  saved_content() at the beginning of the pass.
JobEvent try_state_before(const JobSpec& spec, const AttemptFiles& files,
                          const std::string& content, JobEvent end);

/// Removes all states: the job has succeeded, or begins anew.
void forget_kept_checkpoints(const std::filesystem::path& job_directory);

/// The files that `checkpoint: {newer: …}` names and that processes below this one have open for
/// writing.
/// \param all  otherwise only processes that SIGTERM would end.
std::set<std::filesystem::path> files_being_saved(const JobSpec& spec, bool all);

/// For a step that saves: a pass resumes only from checkpoints of its own work. Those of other work
/// (a parent ran again and left something else) are put aside into the folder of the attempt, as
/// checkpoints-PASS. The work is noted beside the new ones, as checkpoints.of; checkpoints without
/// a note are of an earlier version, and kept. With other resources a job resumes, since its user
/// asked for that, but its result belongs to neither: the reason why it will not be reused is
/// returned. Call it before the pass looks for its checkpoints. Throws Error.
/// \param fingerprint of the job; none: unknown
std::optional<std::string> keep_own_checkpoints(const JobSpec& spec, const AttemptFiles& files,
                                                const Fingerprint& fingerprint,
                                                std::span<const ParentResult> parents);

/// Whether this pass has put checkpoints aside. Then it does not take over files of an earlier
/// pass.
bool begins_anew(const AttemptFiles& files);

/// Notes that the checkpoints that the pass saves from now on belong to no fingerprint, and why
/// ("/data changed after the run was planned"): a later pass that resumes from them has the same
/// doubt, even if all inputs are restored by then. Call it after keep_own_checkpoints(). Throws
/// Error.
void doubt_checkpoints(const JobSpec& spec, const std::string& reason);

}  // namespace dlflow
