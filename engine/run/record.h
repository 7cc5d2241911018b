#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "engine/decide/decide.h"
#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"
#include "engine/report/observer.h"
#include "engine/store/store.h"

/// How the state of a run changes.
///
/// A run is its plan and the events of its jobs: RUN/events.jsonl, written by the holder of
/// RunLock, and one events.jsonl in the folder of each attempt, written by that attempt's
/// supervisor. Everything else, the database included, can be rebuilt from these.
///
/// Every event takes effect through RunRecord, for a run on this machine and for a chain in a batch
/// system alike. It checks the transition, writes the event to the run's file unless a supervisor
/// has written it to its own, moves the job (Jobs::update, which has no other effect), and informs
/// the store and the observer. There are two kinds of events:
///
/// - decisions of the engine (submit it, try it again, block it). The engine has just looked at the
///   states, so that an illegal decision is a bug and ends the program.
/// - observations of other processes: a supervisor's record, a back end's update, the answer of a
///   batch system. They may come late, twice, or from an attempt that was given up. Such an event
///   moves nothing, and is not written.
///
/// The consequences of a new state are decided elsewhere, by one pure function (engine/decide):
/// after a kill it is called again for states that were read back from the files. So no effect
/// requires that an event is seen exactly once.
namespace dlflow {

/// Adds a run to the store that has only a folder so far. If that fails the folder is removed;
/// otherwise `status` and `--resume` would not find the run.
void record_new_run(const Plan& plan, Store& store);

/// See above. The caller holds RunLock. All references must outlive the object.
class RunRecord {
 public:
  /// \param known  by job: its progress so far.
  RunRecord(const Plan& plan, std::vector<JobProgress> known, Store& store, const Clock& clock);

  const Jobs& jobs() const { return jobs_; }

  /// Replaces the jobs, since the plan has others now. All events must be in the store. \param
  /// known  by job.
  void replace_jobs(std::vector<JobProgress> known);

  /// Moves a job by a decision of the engine.
  void decide(uint32_t job, JobState state, const std::string& reason = "",
              const std::string& backend_id = "");

  /// Records the intent to submit the next attempt of a job.
  void submit_anew(uint32_t job);

  /// Moves the job back to Planned. \param tries  the number of tries that it has used.
  void plan_again(uint32_t job, int tries, const std::string& reason);
  auto planner() { return std::bind_front(&RunRecord::plan_again, this); }

  /// Gives the job the result that plan.reused has for it.
  void reuse(uint32_t job);

  /// Carries out a decision that changes a state by itself: Skip, Block, TryAgain or Reuse.
  void decide(const Decision& decision);

  /// Records an observation that is in no record yet. Returns whether it moves the job.
  bool observe(uint32_t job, JobEvent event);

  /// Takes an event that the job's supervisor has recorded. Returns whether it moves the job.
  bool take(uint32_t job, JobEvent event);

  /// Reads the record of the job's latest attempt from its start. Returns the number of bytes read.
  uint64_t follow(uint32_t job);

  /// Sends all further events to `observer`.
  void show_to(Observer& observer) { observer_ = &observer; }

  /// Syncs the run's file to disk, so that later effects may rely on it.
  void sync();

  /// Whether events are not in the store yet.
  bool has_pending() const { return !pending_.empty(); }

  /// Writes them to the store. Throws like Store.
  void save();

  /// The same, but if the database is busy for too long, the next call tries again.
  void try_save();

 private:
  JobEvent event(uint32_t job, JobState state, const std::string& reason) const;
  void decide(uint32_t job, JobEvent event);
  void write(uint32_t job, JobEvent event);
  void publish(uint32_t job, JobEvent event);

  const Plan& plan_;
  Jobs jobs_;
  Store& store_;
  const Clock& clock_;
  Observer* observer_ = nullptr;
  AppendFile file_;
  bool synced_ = true;
  std::vector<JobEvent> pending_;
};

}  // namespace dlflow
