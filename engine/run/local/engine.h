#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/decide/decide.h"
#include "engine/decide/jobs.h"
#include "engine/plan/plan.h"
#include "engine/run/handed_over.h"
#include "engine/run/interrupts.h"
#include "engine/run/local/local_run.h"
#include "engine/run/local/parent_results.h"
#include "engine/run/record.h"
#include "engine/run/start_queue.h"

namespace dlflow {

/// The news of a run on this machine for the recipients of `notify:`: each failure as it comes, and
/// the end. Both arguments must outlive it.
class RunNews {
 public:
  RunNews(const Plan& plan, const Jobs& jobs) : plan_(plan), jobs_(jobs) {}

  /// Tells that `job` has failed and is not tried again. The first such job is also the reason why
  /// the run has failed.
  void failed(uint32_t job, const std::string& reason);

  /// Tells that the run has ended and no process continues it.
  void ended(RunState state) const;

 private:
  const Plan& plan_;
  const Jobs& jobs_;
  std::optional<JobEvent> failure_;  // the first
};

/// One engine at work on one run, from any state of its jobs until nothing is left to do. The
/// functions of local_run.h make one while they hold the run's lock.
///
/// Its loop takes the updates of the back end, moves jobs accordingly (RunRecord), and carries out
/// the decisions of decide() on the new states. All its other state can be rebuilt from the record:
/// an engine that is killed at any point is replaced by another one, which begins with every job.
class Engine {
 public:
  /// Nothing is announced to the observer before run() or stop(); until then jobs may be planned
  /// again. \param known  by job: its progress on record.
  Engine(Plan plan, std::vector<JobProgress> known, const Services& services,
         const RunOptions& options);

  Plan& plan() { return plan_; }
  RunRecord& record() { return record_; }

  /// Takes over a job that an earlier engine handed over, or was about to: watches it, hands it
  /// over again, or finds that it is lost. Throws like Backend::recover.
  void recover(uint32_t job);

  /// Runs until nothing is left to do.
  RunResult run();

  /// Asks running jobs for a checkpoint and an end, and waits for them; starts nothing.
  RunResult stop();

 private:
  const Jobs& jobs() const { return record_.jobs(); }

  void begin();
  RunResult work();
  RunResult end();
  Capabilities now() const;
  bool is_idle() const;
  std::chrono::milliseconds patience() const;

  template <typename Condition>
  void look_at_jobs(const Condition& is_looked_at);
  void decide_on(const Changes& changed, const Capabilities& capabilities);
  void settle();
  bool settle_idle();
  void carry_out(const Decision& decision);
  void look_up(uint32_t job);
  void withdraw(uint32_t job);
  bool take_lists();
  bool take_list(uint32_t job);
  void extend(Plan next);
  void go_on_with(Plan next, std::vector<JobProgress> known);
  void enqueue(uint32_t job);
  void start_jobs();
  void start(uint32_t job);
  void take(const Update& update);

  void look_for_requests();
  void stop_once();
  void tick();

  Plan plan_;
  Services services_;
  RunOptions options_;
  Interrupts interrupts_;
  RunRecord record_;
  ParentResults results_;
  RunNews news_;
  Changes changed_;                      // to be decided on
  std::vector<bool> is_queued_;          // by job: in `queue_`
  std::map<uint32_t, Time> not_before_;  // of jobs that wait for their next try
  StartQueue queue_;                     // to be handed over
  bool looks_for_lists_ = true;          // a step may have left a list that is not laid out
  HandedOver handed_over_;
  Time last_tick_{};
  Time last_save_{};
  int stops_ = 0;             // the number of requests to stop
  bool interrupted_ = false;  // by a signal
  bool failed_ = false;       // a job failed for good since this engine began
};

}  // namespace dlflow
