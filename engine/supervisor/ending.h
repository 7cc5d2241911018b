#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "engine/plan/job.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/saved_state.h"
#include "engine/supervisor/supervisor.h"
#include "engine/supervisor/watch.h"

/// The meaning of an unsuccessful end of a program.
namespace dlflow {

/// The state before the program began.
struct BeforePass {
  std::string checkpoints;                ///< checkpoint_signature()
  std::optional<std::string> at_request;  ///< the same at the request to save, if there was one
  std::string content;                    ///< saved_content() of a command; else nothing
  std::string reported;                   ///< reported_step()
  uint64_t reported_bytes = 0;            ///< number of files of earlier passes
  std::set<std::filesystem::path> torn;   ///< files that were incomplete at its end
  int idle_passes = 0;                    ///< of the pass before this one
  SavedFiles saved;                       ///< that match `checkpoint: {newer: …}`
  uint64_t memory_kills = 0;              ///< by the kernel, on this machine since it booted
  uint64_t memory_kills_of_job = 0;       ///< SupervisorOptions::memory_kills
  uint64_t standard_error_bytes = 0;      ///< what earlier passes left there
};

BeforePass look_before_pass(const JobSpec& spec, const AttemptFiles& files,
                            const SupervisorOptions& options);

/// Whether the scheduler will count the job as out of memory.
bool ran_out_of_memory(const SupervisorOptions& options, const BeforePass& before);

/// Whether a command has ended because of a request: one with `checkpoint: {newer: …}` after any
/// request, another one after it has saved something since. Its exit status then has no meaning,
/// even 0, since it may be that of a shell or a pipe around the program: the program must run again
/// if there is something new. Its outputs may be incomplete.
bool ends_on_request(const JobSpec& spec, const BeforePass& before, const Watched& watched);

/// The exit status, the resulting state (none: the scheduler will report it), and the reason in
/// words. Exit status 75 is no failure if there is a new checkpoint; a pass that ends_on_request()
/// with a newer file counts as one that ended with 75.
JobEvent ending_of(const JobSpec& spec, const AttemptFiles& files, const SupervisorOptions& options,
                   const BeforePass& before, const Watched& watched);

/// The consequence of `end`. A failure that is tried again is no end: the scheduler keeps the job.
/// \param failed_tries  of the attempt before this pass.
JobEvent end_or_next_try(const JobSpec& spec, const SupervisorOptions& options, int failed_tries,
                         JobEvent end);

}  // namespace dlflow
