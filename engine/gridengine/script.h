#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/batch/batch.h"
#include "engine/model/profile.h"

/// Turns a batch and a profile into a call of qsub.
namespace dlflow {

struct QsubCall {
  std::vector<std::string> argv;
  std::string script;  ///< for its standard input
};

/// The script's exit status on a node that cannot write the log; nothing of the job ran.
inline constexpr int kLogRefused = 53;

/// Grid Engine counts tasks from 1, we count from 0.
///
/// The script itself opens the log: a job whose `-o` cannot be opened stays in the queue in an
/// error state for ever, and `-o` gives a meaning to ':', ',' and '$' in a path. The shell executes
/// the command in its place, so that the command gets the job's signals: SIGUSR1 at the soft time
/// limit, SIGUSR2 on deletion (`-notify`), the queue's `notify` time before SIGKILL.
///
/// Throws Error{InvalidInput} if the profile lacks an option that the batch needs.
QsubCall qsub_call(const Batch& batch, const Profile& profile);

/// "811,812", each job once: Grid Engine waits for the end of whole jobs, successful or not.
std::string hold_list(std::span<const Dependency> dependencies);

}  // namespace dlflow
