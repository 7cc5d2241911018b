#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/support/fake_slurm/job.h"

/// A cluster as slurmctld sees it: nodes, jobs, a clock that a test turns. No files, no processes.
namespace dlflow::fake_slurm {

constexpr Seconds kMinJobAge = 300;
constexpr int kNodeMemory = 8000;  ///< in MB

struct Partition {
  std::string name;
  int max_minutes = 0;  ///< 0: no limit
};

/// The first is the default.
inline const std::array<Partition, 2> kPartitions = {{{"batch", 0}, {"short", 5}}};

/// What slurm.conf and the accounting database say. The names are those of `fake-slurm set`.
struct Config {
  std::string cluster = "alpha";
  int nodes = 2;
  int cpus = 4;          ///< of a node
  std::string accounts;  ///< the one that is valid; empty: any is
  bool accounting = true;
  int max_array_size = 1001;
  int max_submit = 0;       ///< QOSMaxSubmitJobPerUserLimit; 0: none
  int requeue_delay = 121;  ///< AuthInfo=cred_expire and one second
};

/// A submission that slurmctld takes only after `calls` more commands.
struct Late {
  Request request;
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
  std::vector<Late> late;
  std::vector<Effect> effects;  ///< not part of the state: the caller takes them after each call
};

/// A new world: two nodes, 2026-11-21 08:00 of the local time.
World new_world();

/// A refusal in SLURM's words: strerror of slurmctld's code.
struct Refused {
  std::string text;
  std::string before = {};  ///< a line that is printed before it, or nothing
};

/// A task and the job it belongs to; valid until the next submit().
struct Found {
  Job* job = nullptr;
  Task* task = nullptr;
};

/// In memory (not purged): `812` (a job, all tasks of an array, or a raw id), `812_3`,
/// `812_[3-5,7]`. Empty if there is none; throws Refused if `text` is no id.
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

/// Sends a signal to the batch shell of a running task.
void send_signal(World& world, Found found, int number);

/// Puts a started or ended task back into the queue under the same id. Throws Refused.
void requeue(World& world, Found found);

/// Forgets, but for accounting, all tasks that are over; as if MinJobAge had passed.
void purge(World& world);

int limit_minutes(const Request& request);                 ///< 0: none
const Partition* find_partition(const std::string& name);  ///< "": the default

/// 3-9,12 as a list, in order and without doubles; nothing if it is none or over `max`.
std::optional<std::vector<int>> parse_indices(const std::string& text, int max);

}  // namespace dlflow::fake_slurm
