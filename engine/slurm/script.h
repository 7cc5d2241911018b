#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Jobs that travel together + a profile -> the text that sbatch gets.
namespace dlflow {

/// A word of Batch::command that stands for the number of the array's task (0 of a plain job).
inline constexpr std::string_view kTaskWord = "{task}";

/// One sbatch: a plain job, or a job array.
struct Batch {
  std::string name;  ///< unique per attempt: what a job is found by after an unclear answer
  Resources resources;
  std::vector<uint32_t> tasks;  ///< numbers of the array's tasks, ascending; empty: a plain job
  int max_parallel = 0;         ///< of them that run at a time; 0: as the profile says
  std::string dependency;       ///< "afterok:811:812,aftercorr:813"; empty: none
  bool may_requeue = true;
  std::filesystem::path run_directory;  ///< where the batch shell starts
  /// What the batch shell prints is appended here, by all tasks of an array; "{task}" in its last
  /// part stands for the task's number.
  std::filesystem::path log;
  std::vector<std::string> command;
  std::string comment;  ///< for people who look at the queue
};

/// How many nodes `sbatch` is asked for; 0: SLURM decides.
int num_nodes(const Resources& resources, const Profile& profile);
/// Ranks on the fullest node; all of them if SLURM decides.
int max_ranks_on_node(const Resources& resources, const Profile& profile);

/// The time limit that SLURM is given: walltime and 30 s, in which the supervisor saves and
/// records, rounded up to minutes (SLURM knows no less), but not above the profile's. 0: not said.
std::chrono::minutes time_limit(const Resources& resources, const Profile& profile);

/// `word` as one argument in a #SBATCH line. Not for text with line breaks.
std::string sbatch_quote(std::string_view word);

/// A /bin/sh script whose first lines are the options. Its shell becomes `command`, so that signals
/// to the batch shell are the command's. Throws Error{InvalidInput} for a control character in what
/// becomes an option: #SBATCH lines have no way to write one.
///
/// `--export=ALL`: SlurmTools runs sbatch with an environment that holds what a job needs and no
/// more. NONE or a list would make the node run the user's login shell for each job (`su -`), which
/// is slow, may fail, and holds the job then; and NONE would be inherited by every srun in it.
std::string sbatch_script(const Batch& batch, const Profile& profile);

}  // namespace dlflow
