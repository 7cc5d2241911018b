#pragma once

#include <string>
#include <vector>

#include "tests/support/fake_slurm/job.h"

/// A cluster as slurmctld sees it: nodes, jobs, a clock that a test turns. No files, no processes.
namespace dlflow::fake_slurm {

struct Node {
  std::string name;
  int cpus = 4;
  int64_t memory_mb = 8000;
  int gpus = 0;
};

struct Partition {
  std::string name;
  int max_minutes = 0;  ///< 0: no limit
  bool is_default = false;
};

/// What slurm.conf and the accounting database say. The names are those of `fake-slurm set`.
struct Config {
  std::string cluster = "alpha";
  int version = 2205;  ///< year and month: 20.11 is 2011
  std::vector<Node> nodes;
  std::vector<Partition> partitions = {{"batch", 0, true}, {"short", 5, false}};
  std::vector<std::string> accounts;  ///< empty: any is valid
  std::vector<std::string> qos;       ///< empty: any is valid
  bool accounting = true;
  bool federation = false;  ///< --parsable prints id;cluster
  int max_array_size = 1001;
  int max_job_count = 10000;
  int max_submit = 0;  ///< QOSMaxSubmitJobPerUserLimit; 0: none
  int min_job_age = 300;
  int requeue_delay = 121;    ///< AuthInfo=cred_expire and one second
  int configure_seconds = 0;  ///< a started job is CONFIGURING so long
  int complete_seconds = 0;   ///< an ended job is COMPLETING so long
  bool requeue_by_default = true;
};

/// How a job will end that nobody ends: the first rule whose glob is its name.
struct Outcome {
  std::string glob;
  Seconds after = 0;
  State state = State::Completed;
  int exit_code = 0;
};

/// A submission that slurmctld takes only when the clock shows `due` or after `calls` more
/// commands.
struct Late {
  Request request;
  Seconds due = 0;
  int calls = 0;
};

/// What the world wants done to real processes.
struct Effect {
  enum class Kind { Start, Signal, Kill };
  Kind kind = Kind::Start;
  JobId job = 0;
  int index = -1;
  int number = 0;  ///< of the signal
  int pid = 0;     ///< Kill: of the pass that ends; the task may have lost it to the next
};

struct World {
  Config config;
  Seconds now = 0;
  JobId next_id = 1;
  std::vector<Job> jobs;  ///< by id
  std::vector<Outcome> outcomes;
  std::vector<Late> late;
  std::vector<Effect> effects;  ///< not part of the state: the caller takes them after each call
};

/// A new world: two nodes, 2026-11-21 08:00 of the local time.
World new_world();

Json to_json(const World& world);
World world_from_json(const Json& json);

/// A refusal in SLURM's words: strerror of slurmctld's code.
struct Refused {
  std::string text;
  std::string before = {};  ///< a line that is printed before it, or nothing
  bool busy = false;        ///< sbatch waits and tries again
};

/// A task and the job it belongs to; valid until the next submit().
struct Found {
  Job* job = nullptr;
  Task* task = nullptr;
};

/// In memory (not purged): `812` (a job, all tasks of an array, or a raw id), `812_3`,
/// `812_[3-5,7]`, `812_*`. Empty if there is none; throws Refused if `text` is no id.
std::vector<Found> find(World& world, const std::string& text);
Job* find_job(World& world, JobId id);  ///< by its own id, purged or not
Found find_task(World& world, JobId job, int index);

/// The id of the new job. Throws Refused.
JobId submit(World& world, Request request);

/// The dependencies that `text` means for a job of this world. Throws Refused.
std::vector<Dependency> resolve(World& world, const std::string& text);

/// Gives a pending array task a record, and so a raw id, of its own.
void split_off(World& world, Found found);

/// Ends a task now: `kill` if its process is still there.
void end(World& world, Found found, State state, int exit_code, int exit_signal, bool kill);

/// What scancel does: a pending or running task ends as CANCELLED by `user`.
void cancel(World& world, Found found, int user);

/// What scancel --signal does to a running task.
void send_signal(World& world, Found found, int number, bool batch);

/// Puts a started or ended task back into the queue under the same id; `state` is what accounting
/// keeps of this pass (REQUEUED, NODE_FAIL, PREEMPTED). Throws Refused.
void requeue(World& world, Found found, const std::string& state);

/// Forgets, but for accounting, all tasks that are over; as if MinJobAge had passed.
void purge(World& world);

int limit_minutes(const World& world, const Request& request);  ///< 0: none
const Partition* find_partition(const Config& config, const std::string& name);

/// What is shown: PENDING, CONFIGURING, RUNNING, COMPLETING, … and its two letters.
std::string shown_state(const World& world, const Task& task);
std::string short_state(const std::string& state);

/// Over and no longer COMPLETING: its nodes are free, its dependents may go on.
bool is_over(const World& world, const Task& task);

/// 3-9,12 as a list, in order and without doubles; nothing if it is none or over `max`.
std::optional<std::vector<int>> parse_indices(const std::string& text, int max);

}  // namespace dlflow::fake_slurm
