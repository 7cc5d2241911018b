#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/decide/needed_inputs.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"

namespace dlflow {

inline const Step& step_of(const Plan& plan, uint32_t job) {
  return plan.workflow.steps[plan.jobs[job].step];
}

inline const Json& element_of(const Plan& plan, uint32_t job) {
  const PlannedJob& planned = plan.jobs[job];
  return (*plan.steps[planned.step].elements)[planned.element];
}

/// The progress of one job.
struct JobProgress {
  JobState state = JobState::Planned;
  int attempt = 0;               ///< the latest; 0: none yet
  int pass = 1;                  ///< of that attempt: the one that runs, or the one to start
  int tries = 0;                 ///< attempts since someone asked for it; retries count these
  std::optional<int> exit = {};  ///< exit status of the latest, if it is known
  bool preempted = false;        ///< of a lost job
};

/// The end of a job in the form that should_retry() takes.
JobEvent ending_of(const JobProgress& progress);

/// The states of a run's jobs, and what follows from them for each other. Only update() and
/// rewind() change a state, and they have no other effect. No event of one job costs a look at all
/// jobs. `plan` must outlive it.
class Jobs {
 public:
  /// \param known  by job.
  Jobs(const Plan& plan, std::vector<JobProgress> known);

  /// The plan has other jobs now. \param known  by job.
  void replace(std::vector<JobProgress> known);

  const JobProgress& operator[](uint32_t job) const { return jobs_[job]; }
  uint32_t size() const { return uint32_t(jobs_.size()); }

  /// Whether the event moves the job: it has a state, belongs to no earlier attempt, and is a legal
  /// transition.
  bool accepts(uint32_t job, const JobEvent& event) const;

  /// Moves the job, if the event is one that moves it. Returns whether it did.
  bool update(uint32_t job, const JobEvent& event);

  /// Resets a job that has not ended to Submitting, before the record of its attempt is read again.
  void rewind(uint32_t job);

  /// The number of parents that the job still waits for: those that have neither succeeded nor been
  /// skipped, nor failed where that is allowed. For a job that always runs: those that have not
  /// ended.
  uint32_t unfinished_parents(uint32_t job) const { return unfinished_parents_[job]; }

  /// Whether the job can run with the results of its parents, once it waits for none.
  Inputs inputs(uint32_t job) const;

  /// A job that ended badly and for which `job` waits, directly or not.
  std::optional<uint32_t> obstacle(uint32_t job) const;

  /// Whether it failed and its step is allowed to.
  bool is_allowed_failure(uint32_t job) const;

  /// The number of jobs in one of `states`.
  size_t count(std::initializer_list<JobState> states) const;

 private:
  const Step& step_of(uint32_t job) const { return dlflow::step_of(plan_, job); }
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
