#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/supervisor/watch.h"

/// Runs one pass of an attempt on the node it is called on, whatever the back end: claims it,
/// checks its parents' records (P3), resolves what depends on them, starts the program, watches it,
/// checks what it made, publishes, and records each change of state in attempt-N/events.jsonl.
namespace dlflow {

/// News from supervise() while it works.
enum class Notice {
  ProgramEnded,  ///< what it took of the machine is free; how it ended is still being recorded
  Recorded,      ///< an event is on disk: the engine's cue to read the file
};

/// How supervise() ended; what happened to the job is in events.jsonl.
enum class Supervision {
  Recorded,    ///< the last event is on disk
  Kept,        ///< the last event is recorded, and SupervisorOptions::keep_end has it
  NotOurs,     ///< another supervisor has the pass
  Unrecorded,  ///< the disk is full or gone: why is on standard error and, if it can be, in
               ///< `stderr`
};

/// The differences between back ends.
struct SupervisorOptions {
  /// Called from this process; a program that ends within a moment is told of once.
  std::function<void(Notice)> notify;
  std::string backend_id;           ///< recorded with each event; empty: this process's number
  uint64_t token = 0;               ///< of the claim; another one for each pass of a process
  std::optional<std::string> gpus;  ///< CUDA_VISIBLE_DEVICES of the program; else as it is here

  /// Takes the end of a pass that left no output, with job and attempt, for EndsLog. Its record is
  /// then not synced here, nor told of. Empty: each record is synced.
  std::function<void(const std::filesystem::path& run_directory, const JobEvent& end)> keep_end;

  /// The job is its own engine: the scheduler runs the same job again when it is asked to. A
  /// failure that `retry:` covers is then recorded as queued, and what SIGTERM means is left to the
  /// scheduler to say: a note is recorded when it comes, and one when the program ends, but no end.
  bool requeues = false;
  /// How often such a job looks whether another pass has taken over: then its program is ended, and
  /// nothing more is recorded.
  std::chrono::milliseconds look_again = std::chrono::seconds(45);

  /// The process runs further attempts after this one. SIGINT then ends it only if `dlflow cancel`
  /// has left a request in its folder. Called when SIGTERM or SIGUSR1 comes, which are for all.
  std::function<void(StopCause)> hear;

  /// Processes of the job that the kernel has killed for want of memory so far, as its scheduler
  /// counts them; empty: that is not known. One with more at its end has failed, whatever its
  /// program says: the scheduler takes it for failed, too.
  std::function<uint64_t()> memory_kills;
  uint64_t memory_bytes = 0;         ///< that the scheduler gives it on a node; 0: as the job asks
  uint64_t more_memory_bytes = 0;    ///< that a next try gets for want of memory; 0: the same
  std::chrono::seconds walltime{0};  ///< of this pass; 0: as the job asks

  /// Signals that the scheduler sends to every process of the job, and that are for the supervisor
  /// alone: its program begins with them blocked.
  std::vector<int> own_signals;
};

/// \param attempt_directory  holds job.json.
/// \param pass      from 1; after a requeue (state queued) the next one.
///
/// The calling process is used up for all but another pass: it blocks SIGTERM, SIGINT, SIGUSR1 and
/// SIGCHLD, and adopts what its program leaves behind. SIGTERM, SIGINT or request_stop() asks the
/// program for a checkpoint and an end (cancelled), SIGUSR1 says that the walltime is near (queued
/// again if the program answers with 75); a second request for the end kills the program. Never
/// throws.
Supervision supervise(const std::filesystem::path& attempt_directory, int pass,
                      const SupervisorOptions& options = {});

}  // namespace dlflow
