#pragma once

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
/// A run is its plan and the events of its jobs: RUN/events.jsonl, which whoever holds RunLock
/// writes, and one events.jsonl in the folder of each attempt, which that attempt's supervisor
/// writes. Everything else, the database too, can be made from these again.
///
/// RunRecord is the one way by which an event takes effect, for a run on this machine and for a
/// chain in a batch system alike. It checks the transition, writes the event to the run's file
/// unless a supervisor has written it to its own, moves the job (Jobs::update, which has no other
/// effect), and tells the store and who watches. Two kinds of events come here:
///
/// - decisions of the engine (submit it, try it again, block it). They are made by who has just
///   looked at the states, so that an illegal one is a bug, and ends the program.
/// - observations of what others did: a supervisor's record, a back end's update, the word of a
///   batch system. They may come late, twice, or from an attempt that was given up. Such a one
///   moves nothing, and is not written.
///
/// What follows from a new state is decided elsewhere, by one pure function (engine/decide): after
/// a kill it is called again for states that were read back from the files. So no effect requires
/// that an event is seen exactly once.
namespace dlflow {

/// Adds a run that has a folder now, and nothing else yet, to the store. If that fails the folder
/// is removed: else `status` and `--resume` would not know it.
void record_new_run(const Plan& plan, Store& store);

/// See above. For whoever holds RunLock. All references must outlive it.
class RunRecord {
 public:
  /// \param known  by job: where each stands by now.
  RunRecord(const Plan& plan, std::vector<JobProgress> known, Store& store, const Clock& clock);

  const Jobs& jobs() const { return jobs_; }

  /// The plan has other jobs now, and what was recorded is in the store. \param known  by job.
  void replace_jobs(std::vector<JobProgress> known);

  /// The engine moves a job.
  void decide(uint32_t job, JobState state, const std::string& reason = "",
              const std::string& backend_id = "");

  /// The next attempt of a job, whose intent this is.
  void submit_anew(uint32_t job);

  /// The job waits for its turn again. \param tries  that it has used up of those it may have.
  void plan_again(uint32_t job, int tries, const std::string& reason);

  /// The job takes the result that plan.reused has for it.
  void reuse(uint32_t job);

  /// The same for a decision that changes a state by itself: Skip, Block, TryAgain or Reuse.
  void decide(const Decision& decision);

  /// Something was seen that is on no record yet. Whether it moves the job.
  bool observe(uint32_t job, JobEvent event);

  /// An event that the job's supervisor has recorded. Whether it moves the job.
  bool take(uint32_t job, JobEvent event);

  /// Follows the record of the job's latest attempt from its start to where it is now. How many
  /// bytes of it were read.
  uint64_t follow(uint32_t job);

  /// `observer` hears of events from now on.
  void show_to(Observer& observer) { observer_ = &observer; }

  /// The run's file is on disk: what follows may rely on it.
  void sync();

  /// Whether events are not in the store yet.
  bool has_pending() const { return !pending_.empty(); }

  /// Writes them to the store. Throws as Store.
  void save();

  /// The same, but a database that is busy for too long is tried again with the next call.
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
