#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/needed_inputs.h"
#include "engine/plan/plan.h"
#include "engine/store/run_status.h"

namespace dlflow {

/// Ended without success, so that what needs it cannot run.
bool is_broken(JobState state);

/// Where one job stands.
struct JobProgress {
  JobState state = JobState::Planned;
  int attempt = 0;  ///< the latest; 0: none yet
  int pass = 1;     ///< of that attempt: the one that runs, or the one to start
  int tries = 0;    ///< attempts since someone asked for it, what retries are counted by
  std::optional<int> exit = {};  ///< how the latest ended, where that is known
  bool preempted = false;        ///< of a lost job
};

/// The end of a job, as should_retry() looks at it.
JobEvent ending_of(const JobProgress& progress);

/// The states of a run's jobs, and what they mean to each other. update() is the one place where a
/// state changes, and it has no other effect. Nothing here looks at all jobs for an event of one.
/// `plan` must outlive it.
class Jobs {
 public:
  /// \param known  by job.
  Jobs(const Plan& plan, std::vector<JobProgress> known);

  /// The plan has other jobs now. \param known  by job.
  void replace(std::vector<JobProgress> known);

  const JobProgress& operator[](uint32_t job) const { return jobs_[job]; }
  uint32_t size() const { return uint32_t(jobs_.size()); }

  /// Whether the event moves the job: it is no note, of no earlier attempt, and a legal transition.
  bool accepts(uint32_t job, const JobEvent& event) const;

  /// Moves the job on, if the event moves it. Whether it does.
  bool update(uint32_t job, const JobEvent& event);

  /// Back to where the job's latest attempt was handed over, before its record is read again. Of a
  /// job that has not ended.
  void rewind(uint32_t job);

  /// Parents that the job still waits for: that have not succeeded, nor been skipped, nor failed
  /// where that is allowed; of a job that always runs, those that have not ended.
  uint32_t unfinished_parents(uint32_t job) const { return unfinished_parents_[job]; }

  /// Whether the job can run with what its parents left, once it waits for none.
  Inputs inputs(uint32_t job) const;

  /// The job that ended badly, and for which `job` waits, directly or not. Nothing if there is
  /// none.
  std::optional<uint32_t> obstacle(uint32_t job) const;

  /// It failed, and its step is allowed to.
  bool is_allowed_failure(uint32_t job) const;

  /// The state of a run whose jobs are in these states and on which no engine works any more.
  RunState run_state() const;

 private:
  size_t count(std::initializer_list<JobState> states) const;
  const Step& step_of(uint32_t job) const { return plan_.workflow.steps[plan_.jobs[job].step]; }
  const Json& element_of(uint32_t job) const;
  bool uses_outputs(uint32_t child, uint32_t parent) const;
  bool lets_run(uint32_t child, uint32_t parent, JobState state) const;
  bool is_in_the_way(uint32_t child, uint32_t parent) const;
  std::optional<uint32_t> failed_parent(uint32_t job, const std::string& step) const;
  void count_parents();
  void count_finished(uint32_t job, JobState before);

  const Plan& plan_;
  std::vector<JobProgress> jobs_;
  std::array<size_t, size_t(JobState::Skipped) + 1> num_in_{};  // by state
  std::vector<uint32_t> unfinished_parents_;
  std::set<std::pair<uint32_t, uint32_t>> uses_;  // (child, parent): steps with a reference
};

}  // namespace dlflow
