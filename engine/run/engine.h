#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "engine/plan/plan.h"
#include "engine/run/interrupts.h"
#include "engine/run/jobs.h"
#include "engine/run/journal.h"
#include "engine/run/ready_queue.h"
#include "engine/run/scheduler.h"

namespace dlflow {

/// The file by which `dlflow cancel` tells an engine in another process to stop.
std::filesystem::path cancel_file(const std::filesystem::path& run_directory);

/// One engine at work on one run, from any state of its jobs to where nothing is left to do. The
/// functions of scheduler.h make one while they hold the run's lock.
class Engine {
 public:
  /// Nothing is announced to the observer before run(); until then states may be put in.
  Engine(Plan plan, const Services& services, const RunOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Plan& plan() const { return plan_; }
  Plan& plan() { return plan_; }
  Jobs& jobs() { return jobs_; }
  Journal& journal() { return journal_; }

  /// Moves a job and records that, with the engine as the one who says so.
  void move(uint32_t job, JobState state, const std::string& reason);

  /// A job that is submitting or queued, and that the backend does not have: it is to be handed
  /// over, `events_read` as in Submission.
  void hand_over_again(uint32_t job, uint64_t events_read);

  /// The backend has this job already.
  void watch(uint32_t job) { active_.insert(job); }

  Submission submission(uint32_t job) const;

  /// Does all that is left to do.
  RunResult run();

  /// Asks what runs for a checkpoint and an end, and waits for it; starts nothing.
  RunResult stop();

 private:
  void begin();
  RunResult work();
  RunResult end();
  bool may_start() const;
  bool is_over() const;
  std::chrono::milliseconds patience() const;

  // Jobs that wait for nothing more: reused, skipped, or put into the queue.
  void look_at_open();
  void look_at(uint32_t job);
  void reuse(uint32_t job);
  ParentResult result_of(uint32_t job) const;

  int max_parallel(uint32_t job) const;
  void put_into_queue(uint32_t job);
  bool has_room(uint32_t job) const;
  void start_jobs();
  void start(uint32_t job);
  void note_skipped_parents(uint32_t job);

  // What becomes of them.
  void take(const Update& update);
  void requeue(uint32_t job);
  void done(uint32_t job);
  void failed(uint32_t job, const JobEvent& event);

  // Being asked to stop.
  void look_for_requests();
  void stop_once();
  void cancel_waiting();

  void tick();
  JobEvent event(uint32_t job, JobState state, const std::string& reason) const;

  Plan plan_;
  Services services_;
  RunOptions options_;
  Interrupts interrupts_;
  Jobs jobs_;
  Journal journal_;
  std::deque<uint32_t> open_;                 // wait for nothing more, not yet looked at
  ReadyQueue ready_;                          // to be handed over when there is room
  std::multimap<Time, uint32_t> delayed_;     // retries, by when they may start
  std::set<uint32_t> active_;                 // handed over, not ended
  std::map<uint32_t, KnownResult> results_;   // of jobs that ended now and have children
  std::map<uint32_t, uint64_t> events_read_;  // see hand_over_again()
  Time last_tick_{};
  Time last_save_{};
  int stops_ = 0;             // how often we were asked to stop
  bool interrupted_ = false;  // by a signal
  bool failed_ = false;       // a job failed for good since this engine began
};

}  // namespace dlflow
