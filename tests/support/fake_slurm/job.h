#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Jobs of SLURM 22.05 as plain values.
namespace dlflow::fake_slurm {

using Seconds = int64_t;  ///< since 1970, as SLURM's time_t; 0: not yet, or never
using JobId = uint32_t;

/// SLURM's base states.
enum class State { Pending, Running, Completed, Cancelled, Failed, Timeout, OutOfMemory };

std::string name(State state);  ///< "OUT_OF_MEMORY"
std::optional<State> state_of(const std::string& word);

/// The request of an sbatch call.
struct Request {
  std::string name, account, partition, directory, output, dependency, array;
  std::string stored;  ///< folder of script and environment, below the world's
  int nodes = 0;       ///< 0: the fewest that hold the tasks
  int tasks = 1;
  int tasks_per_node = 0;  ///< 0: any number
  int cpus_per_task = 1;
  int64_t memory_mb = 0;  ///< per node
  int minutes = 0;        ///< --time; 0: the partition's
  int signal = 0;         ///< --signal
  int signal_lead = 0;    ///< seconds before the limit
  bool requeue = true;
  bool kill_on_invalid_dependency = false;
  bool append = false;  ///< --open-mode=append
  int throttle = 0;     ///< %N of --array
};

constexpr int kAllTasks = -2;

/// One condition of --dependency.
struct Dependency {
  enum class Type { AfterAny, AfterOk, AfterCorr };
  enum class Mark { Unfulfilled, Fulfilled, Failed };  ///< final once not Unfulfilled, as in SLURM
  Type type = Type::AfterAny;
  JobId job = 0;
  int task = -1;  ///< index in an array, or kAllTasks; -1: not an array
  Mark mark = Mark::Unfulfilled;
};

/// The cores of one node that a task holds.
struct Share {
  std::string node;
  int cpus = 0;
};

/// A job, or one task of an array.
struct Task {
  int index = -1;    ///< -1: the job is not an array
  JobId raw_id = 0;  ///< 0: a pending task without its own record
  State state = State::Pending;
  std::string reason = "None";
  std::vector<Dependency> dependencies;
  Seconds submitted = 0, eligible = 0, begin = 0, started = 0, ended = 0;
  int exit_code = 0, exit_signal = 0;
  int cancelled_by = -1;  ///< user id
  int restarts = 0;
  bool signalled = false;  ///< --signal was sent in this pass
  bool purged = false;     ///< only sacct still shows it
  int pid = 0;             ///< of the process that runs its script
  std::vector<Share> shares;
};

struct Job {
  JobId id = 0;
  Request request;
  std::vector<Task> tasks;

  bool is_array() const { return tasks.front().index >= 0; }
};

inline bool is_final(State state) { return state != State::Pending && state != State::Running; }

/// Parses afterok:5:6_3,afterany:7, as `scontrol update` and sbatch do; returns nothing if SLURM
/// would refuse it. "" means no dependency.
std::optional<std::vector<Dependency>> parse_dependencies(const std::string& text);

/// Formats unfulfilled dependencies as squeue does: afterok:5_*(unfulfilled).
std::string to_text(const std::vector<Dependency>& dependencies);

}  // namespace dlflow::fake_slurm
