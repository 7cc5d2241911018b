#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/batch/batch.h"
#include "engine/model/profile.h"

/// A batch + a profile -> what qsub gets.
namespace dlflow {

struct QsubCall {
  std::vector<std::string> argv;
  std::string script;  ///< for its standard input
};

/// Exit status of the script on a node that cannot write the log; nothing of the job ran.
inline constexpr int kLogRefused = 53;

/// Grid Engine counts tasks from 1, we from 0.
///
/// The script itself opens the log: a job whose `-o` cannot be opened stays in the queue in an
/// error state for ever, and `-o` gives a meaning to ':', ',' and '$' in a path. Its shell becomes
/// the command, so that signals to the job are the command's: SIGUSR1 at the soft time limit,
/// SIGUSR2 when somebody deletes the job (`-notify`), the queue's `notify` time before SIGKILL.
///
/// Throws Error{InvalidInput} if the profile has no word for what the batch needs.
QsubCall qsub_call(const Batch& batch, const Profile& profile);

/// "811,812", each job once: Grid Engine waits for whole jobs, and for their end, however they end.
std::string hold_list(std::span<const Dependency> dependencies);

}  // namespace dlflow
