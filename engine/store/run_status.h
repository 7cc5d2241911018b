#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/plan/plan.h"

/// The state of a run and of each of its jobs, as `status` shows it and `status --json` prints it.
namespace dlflow {

/// The resource usage of a job: of its last pass on SLURM, else of all passes of its last attempt.
struct JobUsage {
  std::optional<std::chrono::milliseconds> elapsed;
  std::optional<std::chrono::milliseconds> cpu_time;  ///< of all its processes
  int cpus = 0;                                       ///< allocated; 0: unknown
  uint64_t memory_bytes = 0;                          ///< peak; 0: unknown
  std::optional<double> energy_joules = {};           ///< of its nodes, as measured by the cluster
};

/// Where to correct the mistake of a failing program.
enum class Correction {
  Workflow,  ///< in the workflow: it reads only files of its parents
  Sources,   ///< in the workflow or the files copied into the run
  Outside,   ///< at the source of data that it copies
};

/// The latest attempt of a job, as its events report it.
struct JobCourse {
  JobState state = JobState::Planned;
  int attempt = 0;              ///< 0: never submitted
  std::optional<Time> started;  ///< when the attempt first ran
  std::optional<Time> ended;
  std::string backend_id;
  std::string node;
  std::optional<int> exit;
  std::string reason;

  bool operator==(const JobCourse&) const = default;
};

struct JobRow : JobCourse {
  std::string step;
  std::string element;  ///< label, empty without a matrix
  JobName job;
  bool may_fail = false;  ///< its step has `allow_failure: true`
  bool is_open = false;   ///< not a job: represents elements that another step has not listed yet
  Json outputs = Json::object();  ///< name -> value
  Json metrics = Json::object();
  std::string directory;                      ///< the job's folder
  std::optional<std::chrono::seconds> limit;  ///< time limit: its walltime, or that of the cluster
  std::optional<Time> limit_since;            ///< start of the pass with this limit
  std::optional<Resources> asked;             ///< if the plan was read
  std::optional<Correction> correction;       ///< if the plan was read
  std::optional<JobUsage> usage;              ///< if requested and known
};

enum class RunState {
  Running,
  Succeeded,
  Failed,
  Cancelled,
  Interrupted,  ///< its engine was killed, nothing runs, and jobs are left to run
};
std::string_view name(RunState state);
/// The inverse. Throws Error{Corrupt}.
RunState run_state(std::string_view name);

/// A run without its jobs.
struct RunHead {
  std::string run;
  std::string workflow;  ///< its name
  std::string profile;
  RunState state = RunState::Running;
  Time started{};
  std::optional<Time> ended;
  std::string directory;
};

struct RunStatus : RunHead {
  std::chrono::milliseconds idle{};  ///< how long no job was under way, before a repair
  std::vector<JobRow> jobs;          ///< in plan order
  std::string problem;      ///< why the cluster did not answer or the folder is unreadable; the
                            ///< rest is then from before
  bool damaged = false;     ///< the folder is unreadable
  std::string unaccounted;  ///< why accounting returned no usage of jobs
  std::string run_anew;  ///< `dlflow run …` for the workflow's current text; if the plan was read

  /// The time from its start to its end, or to `now`, without the idle time.
  std::chrono::milliseconds worked(Time now) const { return ended.value_or(now) - started - idle; }
};

/// A run as recorded.
struct ReportedRun {
  Plan plan;
  RunStatus status;                                     ///< with resource usage
  std::map<std::string, std::vector<JobEvent>> events;  ///< by job

  /// Empty if nothing is recorded of the job.
  std::span<const JobEvent> events_of(const JobName& job) const;
};

}  // namespace dlflow
