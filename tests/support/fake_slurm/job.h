#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

/// Jobs as SLURM 22.05 keeps them: plain values.
namespace dlflow::fake_slurm {

using Seconds = int64_t;  ///< since 1970, as SLURM's time_t; 0: not yet, or not at all
using JobId = uint32_t;

/// SLURM's base states. What is shown can be another: see shown_state().
enum class State {
  Pending,
  Running,
  Completed,
  Cancelled,
  Failed,
  Timeout,
  NodeFail,
  Preempted,
  OutOfMemory,
};

const char* name(State state);                    ///< "OUT_OF_MEMORY"
std::optional<State> state_of(std::string word);  ///< any case

/// What sbatch asks for.
struct Request {
  std::string name, user, account, partition, qos, constraint, reservation, comment, wckey;
  std::string directory, script_path, stored, output, error, gres, dependency, array, mail_user,
      mail_type;
  // stored: where the script and the environment lie, below the world's folder
  std::vector<std::string> arguments;  ///< of the script
  int nodes = 0;                       ///< 0: as few as hold the tasks
  int tasks = 1;
  int tasks_per_node = 0;  ///< 0: any number
  int cpus_per_task = 1;
  int64_t memory_mb = 0;  ///< per node
  int64_t memory_per_cpu_mb = 0;
  int gpus_per_node = 0;
  int gpus_per_task = 0;
  int gpus = 0;         ///< of the whole job
  int minutes = 0;      ///< --time; 0: the partition's
  int signal = 0;       ///< --signal
  int signal_lead = 0;  ///< seconds before the limit
  bool signal_batch_only = false;
  bool exclusive = false;
  bool requeue = true;
  bool held = false;
  bool kill_on_invalid_dependency = false;
  bool append = false;  ///< --open-mode=append
  int throttle = 0;     ///< %N of --array
  int nice = 0;
  Seconds begin = 0;
};

constexpr int kAllTasks = -2;

/// One condition of --dependency.
struct Dependency {
  enum class Type { After, AfterAny, AfterOk, AfterNotOk, AfterCorr, Singleton };
  enum class Mark { Unfulfilled, Fulfilled, Failed };  ///< a mark that is set stays, as in SLURM
  Type type = Type::AfterAny;
  JobId job = 0;
  int task = -1;     ///< of an array; -1: the job is none; kAllTasks
  int minutes = 0;   ///< after:JOB+MINUTES
  bool any = false;  ///< `?`: one of them is enough
  Mark mark = Mark::Unfulfilled;
};

/// What a task holds of one node.
struct Share {
  std::string node;
  int cpus = 0;
  int tasks = 0;
  int64_t memory_mb = 0;
  int gpus = 0;
};

/// An execution that a requeue ended; sacct shows it with -D.
struct Pass {
  std::string state;
  Seconds submitted = 0, started = 0, ended = 0;
  std::vector<Share> shares;
};

/// A signal that was sent while the task ran: by scancel --signal or sbatch --signal.
struct SentSignal {
  int number = 0;
  bool batch = false;  ///< to the batch shell, not to steps alone
  Seconds at = 0;
};

/// A job, or one task of an array.
struct Task {
  int index = -1;    ///< -1: the job is no array
  JobId raw_id = 0;  ///< 0: a pending task that still shares its array's record
  State state = State::Pending;
  std::string reason = "None";
  std::vector<Dependency> dependencies;
  bool held = false;
  Seconds submitted = 0, eligible = 0, begin = 0, started = 0, ended = 0;
  int exit_code = 0, exit_signal = 0;
  int cancelled_by = -1;  ///< user id
  int restarts = 0;
  bool signalled = false;  ///< --signal was sent in this pass
  bool purged = false;     ///< only sacct knows it any more
  int pid = 0;             ///< of what runs its script
  std::vector<Share> shares;
  std::vector<Pass> passes;
  std::vector<SentSignal> signals;
};

struct Job {
  JobId id = 0;
  Request request;
  std::vector<Task> tasks;

  bool is_array() const { return tasks.front().index >= 0; }
};

inline bool is_final(State state) { return state != State::Pending && state != State::Running; }

Json to_json(const Job& job);
Job job_from_json(const Json& json);

/// afterok:5:6_3,afterany:7?singleton, as `scontrol update` and sbatch take it; nothing if SLURM
/// would refuse it. "" and "0" are no dependencies.
std::optional<std::vector<Dependency>> parse_dependencies(const std::string& text);

/// As squeue and scontrol show what is not fulfilled: afterok:5_*(unfulfilled).
std::string to_text(const std::vector<Dependency>& dependencies);

}  // namespace dlflow::fake_slurm
