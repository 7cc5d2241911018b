#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/profile.h"
#include "engine/model/resources.h"
#include "engine/model/workflow.h"

namespace dlflow {

/// A word of Batch::command that stands for the number of the array's task (0 of a plain job).
inline constexpr std::string_view kTaskWord = "{task}";

/// One thing that a batch waits for: a job or array ("812"), or one task ("812_3").
struct Dependency {
  enum class Kind {
    Success,   ///< of the job, or of all tasks of the array
    SameTask,  ///< task i waits for the success of task i of the array
    End,       ///< of the job or array, however it ends
  };
  Kind kind = Kind::Success;
  std::string id;
  auto operator<=>(const Dependency&) const = default;
};

/// One submission: a plain job, or a job array.
struct Batch {
  std::string name;  ///< unique per attempt: finds the job after an unclear answer
  Resources resources;
  std::vector<uint32_t> tasks;  ///< numbers of the array's tasks, ascending; empty: a plain job
  int max_parallel = 0;         ///< of them that run at a time; 0: as the profile says
  std::vector<Dependency> dependencies;
  std::vector<std::string> excluded_nodes = {};  ///< that it must not run on
  bool may_requeue = true;
  /// If its dependencies have failed it leaves the queue, since other jobs wait for its end.
  bool leaves_if_hopeless = false;
  std::chrono::seconds lead{0};         ///< the time in which its program saves; 0: the default
  std::filesystem::path run_directory;  ///< where the batch shell starts
  /// The output of the batch shells of all its tasks is appended here; "{task}" in its last
  /// component stands for the task's number.
  std::filesystem::path log;
  std::vector<std::string> command;
  std::string comment;  ///< for people who look at the queue
};

/// The time limit for the batch system: walltime and 30 s, in which the supervisor saves and
/// records, rounded up to minutes, but not above the profile's. 0: none.
std::chrono::minutes time_limit(const Resources& resources, const Profile& profile);

/// The walltime behind `limit`, the batch system's limit of such a job: the one that people wrote,
/// at which the job is asked to save. `limit` itself if it was raised, or belongs to a pack.
std::chrono::seconds own_limit(std::chrono::seconds limit, const Resources& resources,
                               const Profile& profile);

/// The resources of a task that runs `elements` with `resources` one after the other: time for
/// each, and for recording between them.
Resources packed(Resources resources, size_t elements);

/// The time between the warning and the time limit of a job. The warning is the safety net below
/// the supervisor's own clock. It may come a minute early, so that a short job is not asked to save
/// as soon as it starts. \param limit  0: none. \param lead  Batch::lead.
std::chrono::seconds warning_time(std::chrono::minutes limit, std::chrono::seconds lead);

/// The shell of a batch script: bash if this machine has it. Dash drops exported functions, and
/// `module` is one on many clusters.
std::string batch_shell();

/// The number of tasks of an array that run at a time; 0: any number.
int array_throttle(const Batch& batch, const Profile& profile);

}  // namespace dlflow
