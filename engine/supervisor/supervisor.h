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
/// checks its parents' records (P3), resolves the values that depend on them, starts the program,
/// watches it, checks its outputs, publishes, and records each change of state in
/// attempt-N/events.jsonl.
namespace dlflow {

/// News from supervise() while it works.
enum class Notice {
  ProgramEnded,  ///< its resources are free; its end is still being recorded
  Recorded,      ///< an event is on disk, so that the engine can read the file
};

/// How supervise() ended; events.jsonl has the end of the job.
enum class Supervision {
  Recorded,    ///< the last event is on disk
  Kept,        ///< the last event is recorded, and SupervisorOptions::keep_end has it
  NotOurs,     ///< another supervisor has the pass
  Unrecorded,  ///< the disk is full or gone: why is on standard error and, if it can be, in
               ///< `stderr`
};

/// The differences between back ends.
struct SupervisorOptions {
  /// Called from this process. A program that ends within a moment causes only one call.
  std::function<void(Notice)> notify;
  std::string backend_id;           ///< recorded with each event; empty: this process's number
  uint64_t token = 0;               ///< of the claim; another one for each pass of a process
  std::optional<std::string> gpus;  ///< CUDA_VISIBLE_DEVICES of the program; else as it is here

  /// Takes the end of a pass without output, with job and attempt, for EndsLog. Its record is then
  /// neither synced nor reported here. Empty: each record is synced.
  std::function<void(const std::filesystem::path& run_directory, const JobEvent& end)> keep_end;

  /// The job is its own engine: the scheduler runs the same job again on request. A failure that
  /// `retry:` covers is then recorded as queued. The scheduler decides what SIGTERM means: a note
  /// is recorded when it comes, and one when the program ends, but no end.
  bool requeues = false;
  /// The interval at which such a job checks whether another pass has taken over: then its program
  /// is ended, and nothing more is recorded.
  std::chrono::milliseconds look_again = std::chrono::seconds(45);

  /// The process runs further attempts after this one. SIGINT then ends it only if `dlflow cancel`
  /// has left a request in its folder. Called on SIGTERM or SIGUSR1, which are for all attempts.
  std::function<void(StopCause)> hear;

  /// The number of the job's processes that the kernel has killed for lack of memory so far,
  /// according to its scheduler; empty: unknown. A job with more at its end has failed, whatever
  /// its program reports, because the scheduler counts it as failed, too.
  std::function<uint64_t()> memory_kills;
  uint64_t memory_bytes = 0;         ///< on a node, from the scheduler; 0: as the job asks
  uint64_t more_memory_bytes = 0;    ///< of a next try after lack of memory; 0: the same
  std::chrono::seconds walltime{0};  ///< of this pass; 0: as the job asks

  /// Signals that the scheduler sends to every process of the job, and that are only for the
  /// supervisor: its program begins with them blocked.
  std::vector<int> own_signals;
};

/// \param attempt_directory  holds job.json.
/// \param pass      from 1; after a requeue (state queued) the next one.
///
/// The calling process can be used only for further passes: it blocks SIGTERM, SIGINT, SIGUSR1 and
/// SIGCHLD, and adopts processes that its program leaves behind. SIGTERM, SIGINT or request_stop()
/// asks the program for a checkpoint and an end (cancelled), SIGUSR1 warns that the walltime is
/// near (queued again if the program answers with 75); a second request for the end kills the
/// program. Never throws.
Supervision supervise(const std::filesystem::path& attempt_directory, int pass,
                      const SupervisorOptions& options = {});

}  // namespace dlflow
