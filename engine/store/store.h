#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/plan/explain.h"
#include "engine/plan/fingerprint.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"
#include "engine/store/database.h"
#include "engine/store/run_status.h"

/// The store of this user's runs: an index over run directories, which are authoritative. schema.h
/// describes the tables.
namespace dlflow {

/// $DLFLOW_HOME, else $XDG_STATE_HOME/dlflow, else ~/.local/state/dlflow. Throws
/// Error{InvalidInput} if none of them is set.
std::filesystem::path dlflow_home();

/// A line of the list of all runs.
struct RunSummary : RunHead {
  std::map<JobState, size_t>
      jobs;  ///< number of jobs in each state; empty: its folder does not exist
};

/// A job that takes its result from another run.
struct Reuse {
  std::string run;
  std::string run_directory;
  std::string from;  ///< the folder of the job that left the result
};

/// A node on which a job was lost.
struct NodeFailure {
  std::string cluster;
  std::string node;
  std::string run;
  JobName job;
  Time at{};
  bool operator==(const NodeFailure&) const = default;
};

/// A Store is used by one thread; any number of processes may have one each. Every function throws
/// Error{Unavailable} if another process keeps writing for longer than the database waits.
///
/// A run is identified by its folder. Its name here is the one it was created with; if two runs in
/// different folders were created with the same name, the second is called NAME.2. A parameter
/// `run` below is either the name here or the folder, absolute and normal (as Plan::directory).
class Store : public KnownResults, public History, public FileHashes {
 public:
  /// Opens `home`/dlflow.db, creating it if needed.
  explicit Store(const std::filesystem::path& home);

  /// Adds a run and its jobs, all planned; returns its name here. Does not change a run whose
  /// folder is already known.
  std::string create_run(const Plan& plan);

  /// Appends `events` and changes the states of their jobs, all or nothing. Skips events that are
  /// stored already, as often as they are stored, so that two readers of one events.jsonl may both
  /// record it. (If a job returns to a state within a millisecond, and the two events are recorded
  /// one at a time, only one is stored; sync_run, which reads both from the file, adds the other.)
  /// Stores an event that is not a legal transition (it came late, or is a note) without changing a
  /// state. The first event of a new attempt is always legal.
  void record(std::string_view run, std::span<const JobEvent> events);

  /// Sets the state that the engine reports at the end, or (Running) when it resumes a run.
  void set_run_state(std::string_view run, RunState state, Time at);

  /// Sets the state that follows from the jobs when no engine is running: Running if some are
  /// queued or running, Interrupted if some only wait for an engine.
  void settle_run_state(std::string_view run);

  bool has_run(std::string_view run);

  /// Throws Error{NotFound}.
  RunStatus status(std::string_view run);

  /// The events of a job in the order they were recorded.
  std::vector<JobEvent> events(std::string_view run, const JobName& job);

  /// The jobs that ran more than once, in plan order.
  std::vector<JobName> repeated_jobs(std::string_view run);

  /// The time of the latest event; nothing if there is none.
  std::optional<Time> last_event(std::string_view run);

  /// Newest first.
  std::vector<RunSummary> runs();

  /// The run that `word` names: by its name, its folder, its workflow's name if that has only one
  /// run, or at least the first four of the digits at its end ("7f3a"). If dlflow was killed before
  /// it recorded the run here, records it now. Throws Error: NotFound with a suggestion,
  /// InvalidInput listing the candidates.
  std::string resolve(std::string_view word);

  /// RUN. Throws Error{NotFound}.
  std::filesystem::path directory(std::string_view run);

  /// Records everything in the run directory that is missing here, such as what a killed dlflow
  /// left unrecorded, adding the run if needed. Settles the run's state if it may have changed, and
  /// returns its name here. The caller must hold the run's RunLock (an engine, or `status` if no
  /// engine is running).
  /// \param loaded  the run if the caller loaded it under this lock
  std::string sync_run(const std::filesystem::path& run_directory, const Plan* loaded = nullptr);

  /// Like sync_run, after deleting the rows of this folder, and of a run of its name whose folder
  /// is gone: it is the same run, moved.
  std::string rebuild_run(const std::filesystem::path& run_directory);

  /// For all runs: the runs that use their results.
  std::vector<Reuse> reuses();

  /// For each other open run: the jobs of `run` that both runs have yet to make from the same text,
  /// parameters and files (fingerprint_base), as numbers in `run`'s plan.
  std::map<std::string, std::set<uint32_t>> shared_with_open_runs(std::string_view run);

  /// The failures on all clusters, by cluster and node, the oldest first; also those of removed
  /// runs. Leaves out forgiven nodes.
  std::vector<NodeFailure> node_failures();

  /// Forgives the failures of a node up to `at`. Returns whether there were any.
  bool forgive_node(const std::string& cluster, const std::string& node, Time at);

  /// Must be called before a run's folder is removed: records beside it which effects elsewhere its
  /// commands have undone. Throws Error.
  void keep_effects(std::string_view run);

  /// Reads the records of keep_effects() in the folder `runs`. Throws Error.
  void take_effects(const std::filesystem::path& runs);

  /// Forgets a run; its directory stays.
  void forget(std::string_view run);

  /// First reads the records that killed runs left, at most once a second for each run.
  std::optional<KnownResult> find(const Fingerprint& fingerprint,
                                  std::span<const std::string> acting) override;
  std::vector<EarlierBase> earlier(const std::string& workflow, const std::string& step,
                                   const JobName& job, const std::string& run) override;
  std::string maker(const std::string& run, const JobName& job) override;
  std::string refusal(const Fingerprint& fingerprint, const std::string& run,
                      const JobName& job) override;

  /// The hash remembered for this path, size, time of change and inode; otherwise hashes the file.
  std::string sha256(const std::filesystem::path& file) override;

 private:
  /// The columns of a job that name the source of its result.
  struct Origin {
    std::string run, reason, reused_from, fingerprint;
  };
  std::string maker(const Origin& taker);
  /// Records the progress of runs without an end, unless an engine is running them.
  void read_open_runs();
  struct Candidate;
  /// The results with this fingerprint, newest first.
  std::vector<Candidate> candidates(const Fingerprint& fingerprint);
  /// The reason why this result is not reused; empty if it is.
  std::string obstacle(const Candidate& candidate, std::span<const std::string> acting);
  std::optional<std::string> overtaker(const Candidate& candidate);
  bool was_disturbed(const Candidate& candidate, const std::string& parent);
  int64_t run_id(std::string_view run);
  /// Gives the run the jobs of `plan`; existing jobs keep their events. Then reads RUN/events.jsonl
  /// again, for jobs that were removed and return.
  void take_jobs(int64_t run, const Plan& plan);
  /// take_jobs() if there is a newer list than the known one. Returns whether there is any list.
  bool take_newest_jobs(int64_t run, const std::filesystem::path& run_directory,
                        const Plan* loaded);
  /// The folder of a run of that name without a row here: in ./dlflow-runs, or beside a known run.
  std::optional<std::filesystem::path> unrecorded_run(const std::string& name);
  std::string name_of(std::string_view run);
  std::string free_name(const std::string& wanted);
  /// Whether any of `events` was new.
  bool record_in_transaction(int64_t run, std::span<const JobEvent> events);
  void note_node_failure(int64_t run, const JobEvent& event);

  Database database_;
  std::map<std::filesystem::path, std::chrono::steady_clock::time_point>
      next_reading_;  ///< for each run, see read_open_runs()
};

}  // namespace dlflow
