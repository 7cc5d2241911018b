#pragma once

#include <filesystem>
#include <functional>

/// Runs one pass of an attempt on the node it is called on, whatever the back end: claims it,
/// checks its parents' records (P3), resolves what depends on them, starts the program, watches it,
/// checks what it made, publishes, and records each change of state in attempt-N/events.jsonl.
namespace dlflow {

/// How supervise() ended; what happened to the job is in events.jsonl.
enum class Supervision {
  Recorded,    ///< the last event is on disk
  NotOurs,     ///< another supervisor has the pass
  Unrecorded,  ///< the disk is full or gone: why is on standard error and, if it can be, in
               ///< `stderr`
};

/// \param attempt_directory  holds job.json.
/// \param pass      from 1; after a requeue (state queued, exit 75) the next one.
/// \param recorded  called after each event that was appended: the engine's cue to read the file.
///
/// The calling process is used up: its signal handlers for SIGTERM, SIGINT, SIGUSR1 and SIGCHLD are
/// set, and it adopts what its program leaves behind. SIGTERM, SIGINT or SIGUSR1 to it asks the
/// program for a checkpoint and an end (cancelled, or queued again if the program answers with 75
/// at the walltime); a second SIGTERM or SIGINT kills the program. Never throws.
Supervision supervise(const std::filesystem::path& attempt_directory, int pass,
                      const std::function<void()>& recorded = {});

}  // namespace dlflow
