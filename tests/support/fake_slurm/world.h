#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/support/fake_slurm/job.h"

/// A cluster as in slurmctld: nodes, jobs, a clock that a test advances. No files, no processes.
namespace dlflow::fake_slurm {

constexpr Seconds kMinJobAge = 300;
constexpr int kNodeMemory = 8000;  ///< in MB

struct Partition {
  std::string name;
  int max_minutes = 0;  ///< 0: no limit
};

/// The first is the default.
inline const std::array<Partition, 2> kPartitions = {{{"batch", 0}, {"short", 5}}};

/// Settings of slurm.conf and the accounting database, named as in `fake-slurm set`.
struct Config {
  std::string cluster = "alpha";
  int nodes = 2;
  int cpus = 4;          ///< per node
  std::string accounts;  ///< the only valid account; empty: any
  bool accounting = true;
  int max_array_size = 1001;
  int max_submit = 0;       ///< QOSMaxSubmitJobPerUserLimit; 0: none
  int requeue_delay = 121;  ///< AuthInfo=cred_expire and one second
};

/// A submission that slurmctld accepts only after `calls` more commands.
struct Late {
  Request request;
  int calls = 0;
};

/// An action on real processes that the world requests.
struct Effect {
  enum class Kind { Start, Signal, Kill };
  Kind kind = Kind::Start;
  JobId job = 0;
  int index = -1;
  int number = 0;  ///< number of the signal
  int pid = 0;     ///< Kill: of the ended pass; the task may already have the next
};

struct World {
  Config config;
  Seconds now = 0;
  JobId next_id = 1;
  std::vector<Job> jobs;  ///< by id
  std::vector<Late> late;
  std::vector<Effect> effects;  ///< not part of the state: taken by the caller after each call
};

/// A new world: two nodes, at 2026-11-21 08:00 local time.
World new_world();

/// A refusal with SLURM's message: strerror of slurmctld's code.
struct Refused {
  std::string text;
  std::string before = {};  ///< a line to print before it, or empty
};

/// A task and the job it belongs to; valid until the next submit().
struct Found {
  Job* job = nullptr;
  Task* task = nullptr;
};

/// Finds tasks that are not purged: `812` (a job, all tasks of an array, or a raw id), `812_3`,
/// `812_[3-5,7]`. Empty if there are none; throws Refused if `text` is not an id.
std::vector<Found> find(World& world, const std::string& text);
Job* find_job(World& world, JobId id);  ///< by its own id, purged or not
Found find_task(World& world, JobId job, int index);

/// Returns the id of the new job. Throws Refused.
JobId submit(World& world, Request request);

/// The dependencies in `text` for a job of this world. Throws Refused.
std::vector<Dependency> resolve(World& world, const std::string& text);

/// Gives a pending array task its own record and raw id.
void split_off(World& world, Found found);

/// Ends a task now; `kill` if its process may still run.
void end(World& world, Found found, State state, int exit_code, int exit_signal, bool kill);

/// Acts as scancel: a pending or running task ends as CANCELLED by `user`.
void cancel(World& world, Found found, int user);

/// Sends a signal to the batch shell of a running task.
void send_signal(World& world, Found found, int number);

/// Puts a started or ended task back into the queue under the same id. Throws Refused.
void requeue(World& world, Found found);

/// Removes all ended tasks, except from accounting, as if MinJobAge had passed.
void purge(World& world);

int limit_minutes(const Request& request);                 ///< 0: none
const Partition* find_partition(const std::string& name);  ///< "": the default

/// Parses 3-9,12 into a sorted list without duplicates; nothing if it is invalid or exceeds `max`.
std::optional<std::vector<int>> parse_indices(const std::string& text, int max);

}  // namespace dlflow::fake_slurm
