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
#include "engine/plan/fingerprint.h"
#include "engine/plan/job_name.h"

/// Job: a step (or one element of its matrix) in a run. Attempt: one submission of it.
namespace dlflow {

enum class JobState {
  Planned,     ///< waits for its parents, or for a free place
  Submitting,  ///< the intent is on disk, but the backend may not have the job
  Queued,      ///< the backend has the job
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

/// Whether no further event is expected without a new attempt.
bool is_final(JobState state);

/// Whether its dependents may run: succeeded or cached. (A skipped parent skips those that use its
/// outputs.)
bool satisfies_dependents(JobState state);

/// Whether `allow_failure` covers this state: not a cancelled job, nor one blocked by its parents.
bool is_failure(JobState state);

/// The walltime of the next try after a try with `walltime` timed out: longer as `retry` asks, but
/// at most `limit` (0: no limit).
std::chrono::seconds next_walltime(const Retry& retry, std::chrono::seconds walltime,
                                   std::chrono::seconds limit);

/// A parent as the supervisor needs it: where to find its record (P3) and its outputs.
struct ParentRef {
  std::string step;
  Json element = Json::object();    ///< matrix values, {} without a matrix
  std::filesystem::path directory;  ///< job folder, absolute; in another run if cached
  bool skipped = false;             ///< by the scheduler, so its folder has no record
  bool may_fail = false;            ///< `allow_failure:` of its step
  bool failed = false;              ///< known to have failed; overrides its record
  bool is_command = true;           ///< a `run:` step, which may have effects elsewhere
  bool operator==(const ParentRef&) const = default;
};

/// The image that a job runs in, and how this cluster runs images.
struct ContainerSpec {
  std::string image;  ///< its name in the workflow
  std::string from;   ///< `images.NAME.from`, with an absolute path
  Digest digest;
  Json build;  ///< `images.NAME.build`, or null
  ContainerSettings settings;
  bool operator==(const ContainerSpec&) const = default;
};

/// The state of a job's input files when the run was planned, to detect later changes.
struct SourceProofs {
  std::map<std::string, std::string> frozen;   ///< copy below RUN/sources -> content_of()
  std::map<std::string, std::string> outside;  ///< path or URL -> data_identity(); empty: missing
  /// lock_of_tools() and venv_beside_lock() -> installed_packages(); empty: missing, so unknown
  std::map<std::string, std::string> packages;
  /// The conditions of `reuse:` at planning: variable of the shell -> value, first word of the
  /// command -> program_identity(); empty: unknown.
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> programs;
  /// Variable that `inherit:` of the profile adds -> SHA-256 of its value.
  std::map<std::string, std::string> inherited;
  bool operator==(const SourceProofs&) const = default;
};

/// Everything that a supervisor needs to run one job on any backend: the content of
/// attempt-N/job.json. Compute nodes read nothing else of the plan. Paths are absolute.
struct JobSpec {
  std::string run;
  JobName job;
  std::string step;
  Json element = Json::object();
  std::string uses;                   ///< "" for run:
  Json run_command;                   ///< string, list or null; may hold steps.* expressions
  Json with = Json::object();         ///< the same
  Json environment = Json::object();  ///< the same
  std::vector<std::string> inherit;   ///< Profile::inherit and the step's
  std::set<std::string> secrets;      ///< names of variables; their values are in RUN/secrets
  Json condition;                     ///< may hold steps.* expressions; null: always
  Json params = Json::object();       ///< in its environment
  Json late_params = Json::object();  ///< still mentioned in its expressions
  bool sees_run = false;              ///< see sees_run()
  Resources resources;
  Launch launch = Launch::Ranks;
  std::optional<ContainerSpec> container;  ///< none: runs directly on the host
  std::optional<CheckpointPolicy> checkpoint;
  Retry retry;
  bool allow_failure = false;  ///< dependents may run if it fails
  bool always = false;         ///< runs however its parents end
  std::vector<Requirement> require;
  std::map<std::string, std::string> outputs;
  std::set<std::string> lists;  ///< the outputs that hold the values of an axis
  std::map<std::string, std::string> needed_metrics;  ///< metrics_read_by_others()
  std::vector<ParentRef> parents;
  std::map<std::string, std::string>
      inputs;                     ///< path as the workflow names it -> frozen copy (absolute)
  std::vector<std::string> data;  ///< inputs that are read in place
  SourceProofs sources;
  std::filesystem::path base;  ///< the workflow's folder; relative paths start here
  std::filesystem::path run_directory;
  std::filesystem::path job_directory;  ///< RUN/steps/STEP[/ELEMENT]
  std::filesystem::path cache;
  uint64_t cache_budget_bytes = 0;
  std::filesystem::path scratch;  ///< on a node's own disk; empty: $TMPDIR there
  uint64_t scratch_budget_bytes = 0;
  /// argv prefix for ranks > 1: mpirun -np 2 …; for Launch::Node without numbers, which depend on
  /// the nodes that the job gets.
  std::vector<std::string> launcher;
  uint64_t node_memory_bytes = 0;          ///< most memory of a job on a node; 0: unknown
  std::chrono::seconds walltime_limit{0};  ///< the limit of its place; 0: unknown
  std::vector<std::string> setup;          ///< shell lines before the program
  std::string fingerprint_base;            ///< what is known at plan time, see fingerprint.h
  bool reuse = true;                       ///< false: runs even if its result is known
};

Json to_json(const JobSpec& spec);
/// Throws Error{Corrupt}.
JobSpec job_spec_from_json(const Json& json);

/// The resource usage of a pass, as far as the kernel reports it to the supervisor: only processes
/// that ended on its node.
struct PassUsage {
  std::chrono::milliseconds cpu_time{0};
  uint64_t memory_bytes = 0;  ///< peak of the largest process
  bool operator==(const PassUsage&) const = default;
};

/// One line of an events.jsonl: a job's change of state, or a note about it if `state` is absent.
struct JobEvent {
  JobName job = {};  ///< empty in an attempt's own file, whose folder names the job
  int attempt = 0;   ///< 0: no attempt (cached, blocked, …); planned: the one that ended
  std::optional<JobState> state = {};
  Time at{};
  std::string backend_id = {};  ///< pid on local, job id on SLURM
  std::string node = {};
  std::optional<int> exit = {};  ///< exit status; 128+n for signal n
  std::string reason = {};       ///< in words, for people: "exit 3: loss is NaN at step 412"
  Fingerprint fingerprint = {};  ///< of a succeeded or cached job
  Json outputs = {};  ///< of a succeeded or cached job: name -> {"value":…, "sha256":…}; also
                      ///< "executable": true for a file that may be run, and "matrix": the axis
                      ///< values of a parent whose output was selected
  Json metrics = {};  ///< of an ended job: its summary numbers by name
  bool published_nothing = false;    ///< of a succeeded job: its Publication is_empty()
  std::string reused_from = {};      ///< of a cached job: folder of the job whose outputs it reuses
  int failed_tries = 0;              ///< of a job to be retried: its failed tries so far
  int idle_passes = 0;               ///< of a pass that saved: passes in a row without a change
  bool preempted = false;            ///< of a lost job: the scheduler gave its node to another job
  std::chrono::seconds walltime{0};  ///< of the next try, if it grows after a timeout
  std::string failed_node = {};      ///< the node whose failure ended the last pass, if it was one
  std::optional<uint64_t> earlier_error_bytes = {};  ///< of the note that a pass was asked to end:
                                                     ///< standard error before that pass
  std::optional<PassUsage> used = {};                ///< of the pass that ended

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

// The sentences that record that another run computed a job's result. The record has nothing else
// about it, so `dlflow explain` parses them.

constexpr std::string_view kReusedFrom = "reused from ", kInSharedCache = ", in the shared cache";

/// \param run  the run that computed the result
inline std::string shared_reason(const std::string& run) {
  return std::string(kReusedFrom) + run + std::string(kInSharedCache);
}

/// The run in such a sentence; nothing if `reason` is something else.
inline std::optional<std::string> run_in_shared_reason(std::string_view reason) {
  if (!reason.starts_with(kReusedFrom) || !reason.ends_with(kInSharedCache)) return std::nullopt;
  reason.remove_prefix(kReusedFrom.size());
  reason.remove_suffix(kInSharedCache.size());
  return std::string(reason);
}

}  // namespace dlflow
