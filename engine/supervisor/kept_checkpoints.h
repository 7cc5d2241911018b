#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "engine/plan/job.h"
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

/// Keeps the present state, if there is one and it is other than the last that was kept.
/// \param content  saved_content() of it.
void keep_checkpoints(const JobSpec& spec, const std::string& content);

/// Puts the state before the last that was kept in the place of the present one, which goes to
/// attempt-N/checkpoints-PASS-unread. False if there is none.
bool put_back_checkpoints(const JobSpec& spec, const AttemptFiles& files);

/// Puts the files of `torn`, names below $DLFLOW_CHECKPOINTS, back as the last state that was kept
/// has them, or removes them; what they were goes to attempt-N/checkpoints-PASS-torn.
void put_back_files(const JobSpec& spec, const AttemptFiles& files,
                    const std::set<std::filesystem::path>& torn);

/// What follows on `end`: a command that fails before it has saved anything may have failed on its
/// checkpoint, so that it goes on from the state before. \param content  saved_content() at the
/// beginning of the pass.
JobEvent try_state_before(const JobSpec& spec, const AttemptFiles& files,
                          const std::string& content, JobEvent end);

/// Forgets all states: the job has ended well, or begins anew.
void forget_kept_checkpoints(const std::filesystem::path& job_directory);

/// The files that `checkpoint: {newer: …}` names and that processes below this one have open for
/// writing. \param all  else of those alone that SIGTERM would end.
std::set<std::filesystem::path> files_being_saved(const JobSpec& spec, bool all);

}  // namespace dlflow
