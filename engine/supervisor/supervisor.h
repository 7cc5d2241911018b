#pragma once

#include <filesystem>
#include <functional>

/// Runs one pass of an attempt on the node it is called on, whatever the back end: claims it,
/// checks its parents' records (P3), resolves what depends on them, starts the program, watches it,
/// checks what it made, publishes, and records each change of state in attempt-N/events.jsonl.
namespace dlflow {

/// What supervise() tells while it works.
enum class Notice {
  ProgramEnded,  ///< what it took of the machine is free; how it ended is still being recorded
  Recorded,      ///< an event is on disk: the engine's cue to read the file
};

/// How supervise() ended; what happened to the job is in events.jsonl.
enum class Supervision {
  Recorded,    ///< the last event is on disk
  NotOurs,     ///< another supervisor has the pass
  Unrecorded,  ///< the disk is full or gone: why is on standard error and, if it can be, in
               ///< `stderr`
};

/// \param attempt_directory  holds job.json.
/// \param pass      from 1; after a requeue (state queued, exit 75) the next one.
/// \param notify    called from this process; a program that ends within a moment is told of once.
///
/// The calling process is used up: its signal handlers for SIGTERM, SIGINT, SIGUSR1 and SIGCHLD are
/// set, and it adopts what its program leaves behind. SIGTERM, SIGINT or SIGUSR1 to it asks the
/// program for a checkpoint and an end (cancelled, or queued again if the program answers with 75
/// at the walltime); a second SIGTERM or SIGINT kills the program. Never throws.
Supervision supervise(const std::filesystem::path& attempt_directory, int pass,
                      const std::function<void(Notice)>& notify = {});

}  // namespace dlflow
