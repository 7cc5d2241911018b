#pragma once

#include <cstdint>
#include <string>

#include "engine/plan/job.h"
#include "engine/supervisor/energy.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/results.h"
#include "engine/supervisor/supervisor.h"
#include "engine/supervisor/watch.h"

/// The meaning of a program's end without success.
namespace dlflow {

/// How things stood before the program began.
struct BeforePass {
  std::string checkpoints;            ///< checkpoint_signature()
  SavedFiles saved;                   ///< that match `checkpoint: {newer: …}`
  uint64_t memory_kills = 0;          ///< by the kernel, on this machine since it booted
  uint64_t memory_kills_of_job = 0;   ///< SupervisorOptions::memory_kills
  uint64_t standard_error_bytes = 0;  ///< what earlier passes left there
  EnergyCounters energy;              ///< of the node's processors
};

BeforePass look_before_pass(const JobSpec& spec, const AttemptFiles& files,
                            const SupervisorOptions& options);

/// Whether the scheduler will take the job for one that ran out of memory.
bool ran_out_of_memory(const SupervisorOptions& options, const BeforePass& before);

/// Whether a program of a step with `checkpoint: {newer: …}` has ended after it was asked to. Then
/// its exit status says nothing, 0 neither: with a newer file it has saved and is to run again,
/// without one it has lost what it did. What it made may be half of its work.
bool ends_on_request(const JobSpec& spec, const Watched& watched);

/// The exit status, the state that follows from it (none: the scheduler has yet to say), and the
/// reason in words. Exit status 75 is no failure if there is a new checkpoint; and a pass that
/// ends_on_request() with a newer file counts as one that ended with 75.
JobEvent ending_of(const JobSpec& spec, const AttemptFiles& files, const SupervisorOptions& options,
                   const BeforePass& before, const Watched& watched);

}  // namespace dlflow
