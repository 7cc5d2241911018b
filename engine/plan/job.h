#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "engine/model/profile.h"
#include "engine/model/workflow.h"

/// Job: a step (or one element of its matrix) in a run. Attempt: one submission of it.
namespace dlflow {

enum class JobState {
  Planned,     ///< waits for its parents, or for a free place
  Submitting,  ///< the intent is on disk, the backend may or may not have it
  Queued,      ///< the backend has it
  Running,
  Succeeded,
  Failed,
  TimedOut,
  Cancelled,
  Lost,     ///< its supervisor vanished without a record: killed, node gone
  Cached,   ///< reused: the same work was done before
  Blocked,  ///< a parent failed
  Skipped,  ///< its `if:` is false
};

/// "planned", "timed-out", …: as printed, stored and in JSON.
std::string_view name(JobState state);
/// The inverse. Throws Error{Corrupt}.
JobState job_state(std::string_view name);

/// The one table of legal transitions. Every change of a state goes through it.
bool may_become(JobState from, JobState to);

/// No further event is expected without a new attempt.
bool is_final(JobState state);
/// The parts of a job's name: "train[lr=0.1]" is element "lr=0.1" of step "train".
std::string_view step_of(std::string_view job);
/// Empty without a matrix. It is also the name of the element's folder.
std::string_view element_of(std::string_view job);

/// Its dependents may run: succeeded or cached. (A skipped parent skips those that use its
/// outputs.)
bool satisfies_dependents(JobState state);

/// Failed in the sense of `allow_failure`: neither cancelled, nor blocked by its own parents.
bool is_failure(JobState state);

/// The walltime of the next try of a job whose last try had `walltime` and timed out: longer by
/// `retry`, but not above `limit` (0: none).
std::chrono::seconds next_walltime(const Retry& retry, std::chrono::seconds walltime,
                                   std::chrono::seconds limit);

/// A parent as the supervisor needs it: where to look for its record (P3) and its outputs.
struct ParentRef {
  std::string step;
  Json element = Json::object();    ///< matrix values, {} without a matrix
  std::filesystem::path directory;  ///< job folder; absolute, possibly in another run (cached)
  bool skipped = false;             ///< by the scheduler, so that its folder has no record
  bool may_fail = false;            ///< `allow_failure:` of its step
  bool failed = false;              ///< it is known that it did, whatever its folder says
  bool is_command = true;           ///< a `run:` step, which may do something elsewhere
  bool operator==(const ParentRef&) const = default;
};

/// The image that a job runs in, and how this cluster does that.
struct ContainerSpec {
  std::string image;  ///< its name in the workflow
  std::string from;   ///< `images.NAME.from`, with an absolute path
  std::string digest;
  Json build;  ///< `images.NAME.build`, or null
  ContainerSettings settings;
  bool operator==(const ContainerSpec&) const = default;
};

/// The state of a job's input files when the run was planned, so that a later change is noticed.
struct SourceProofs {
  std::map<std::string, std::string> frozen;   ///< copy below RUN/sources -> content_of()
  std::map<std::string, std::string> outside;  ///< path or URL -> data_identity(), empty: not there
  /// lock_of_tools() and venv_beside_lock() -> installed_packages(); empty: not there, and so not
  /// known
  std::map<std::string, std::string> packages;
  /// What `reuse:` names, as it was then: a variable of the shell -> its value, the first word of
  /// the command -> program_identity(); empty: not known.
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> programs;
  /// A variable that `inherit:` of the profile adds -> SHA-256 of its value.
  std::map<std::string, std::string> inherited;
  bool operator==(const SourceProofs&) const = default;
};

/// All that a supervisor needs to run one job on any backend: the content of attempt-N/job.json.
/// Nothing else of the plan is read on a compute node. Paths are absolute.
struct JobSpec {
  std::string run;
  std::string job;  ///< "train[lr=0.1]", unique in the run
  std::string step;
  Json element = Json::object();
  std::string uses;                   ///< "" for run:
  Json run_command;                   ///< string, list or null; may hold steps.* expressions
  Json with = Json::object();         ///< the same
  Json environment = Json::object();  ///< the same
  std::vector<std::string> inherit;   ///< Profile::inherit and the step's
  std::set<std::string> secrets;      ///< names of variables; their values are in RUN/secrets
  Json condition;                     ///< may hold steps.* expressions; null: always
  Json params = Json::object();       ///< that reach its environment
  Json late_params = Json::object();  ///< that its expressions still mention
  bool sees_run = false;              ///< see sees_run()
  Resources resources;
  Launch launch = Launch::Ranks;
  std::optional<ContainerSpec> container;  ///< none: it runs as the host is
  std::optional<CheckpointPolicy> checkpoint;
  Retry retry;
  bool allow_failure = false;  ///< what waits for it may run if it fails
  bool always = false;         ///< it runs however its parents ended
  std::vector<Requirement> require;
  std::map<std::string, std::string> outputs;
  std::set<std::string> lists;  ///< the outputs that hold the values of an axis
  std::map<std::string, std::string> needed_metrics;  ///< metrics_read_by_others()
  std::vector<ParentRef> parents;
  std::map<std::string, std::string>
      inputs;                     ///< path as the workflow names it -> frozen copy (absolute)
  std::vector<std::string> data;  ///< inputs that are read where they lie
  SourceProofs sources;
  std::filesystem::path base;  ///< the workflow's folder, below which relative places are
  std::filesystem::path run_directory;
  std::filesystem::path job_directory;  ///< RUN/steps/STEP[/ELEMENT]
  std::filesystem::path cache;
  uint64_t cache_budget_bytes = 0;
  std::filesystem::path scratch;  ///< on a node's own disk; empty: $TMPDIR there
  uint64_t scratch_budget_bytes = 0;
  /// argv prefix for ranks > 1: mpirun -np 2 …; of Launch::Node without numbers, which depend on
  /// the nodes that the job gets.
  std::vector<std::string> launcher;
  uint64_t node_memory_bytes = 0;          ///< what a job can have at most on a node; 0: not known
  std::chrono::seconds walltime_limit{0};  ///< the longest that its place allows; 0: not known
  std::vector<std::string> setup;          ///< shell lines before the program
  std::string fingerprint_base;            ///< what is known at plan time, see fingerprint.h
  bool reuse = true;                       ///< false: it runs even if its result is known
};

Json to_json(const JobSpec& spec);
/// Throws Error{Corrupt}.
JobSpec job_spec_from_json(const Json& json);

/// The resource usage of a pass, as far as the kernel tells the supervisor: of the processes that
/// ended on its node.
struct PassUsage {
  std::chrono::milliseconds cpu_time{0};
  uint64_t memory_bytes = 0;  ///< of the largest of them, at its largest
  bool operator==(const PassUsage&) const = default;
};

/// One line of an events.jsonl: a job's change of state, or (state absent) a note about it.
struct JobEvent {
  std::string job;  ///< empty in an attempt's own file: the folder says it
  int attempt = 0;  ///< 0: concerns no attempt (cached, blocked, …); planned: the one that ended
  std::optional<JobState> state;
  Time at{};
  std::string backend_id;  ///< pid on local, job id on SLURM
  std::string node;
  std::optional<int> exit;  ///< exit status; 128+n for signal n
  std::string reason;       ///< in words, for people: "exit 3: loss is NaN at step 412"
  std::string fingerprint;  ///< of a succeeded or cached job
  Json outputs;  ///< of a succeeded or cached job: name -> {"value":…, "sha256":…}, of
                 ///< a file that may be run "executable": true, of what was selected among the
                 ///< outputs of a parent "matrix": the values of that one's axes
  Json metrics;  ///< of an ended job: summary numbers by name
  bool published_nothing = false;  ///< of a succeeded job: is_empty() of its Publication
  std::string reused_from;  ///< of a cached job: the folder of the job whose outputs it takes
  int failed_tries = 0;     ///< of a job that is tried again: how many of its tries have failed
  int idle_passes = 0;      ///< of a pass that saved: so many in a row have changed nothing
  bool preempted = false;   ///< of a lost job: the scheduler took its node away for another's
  std::chrono::seconds walltime{0};  ///< of the next try, if the last one timed out and it grows
  std::string failed_node;           ///< whose failure ended the last pass, where it is one node
  std::optional<PassUsage> used;     ///< of the pass that ended

  bool operator==(const JobEvent&) const = default;
};

/// Absent fields are left out.
Json to_json(const JobEvent& event);
/// Throws Error{Corrupt}.
JobEvent job_event_from_json(const Json& json);

/// One line of JSON without a newline.
std::string to_line(const JobEvent& event);
/// Throws Error{Corrupt}.
JobEvent job_event_from_line(std::string_view line);

/// Whether `word` means the job called `job`: its name, with the axes in any order
/// ("train[width=64,lr=0.1]" for "train[lr=0.1,width=64]"), or the name of its step.
bool means_job(std::string_view word, std::string_view job);

}  // namespace dlflow
