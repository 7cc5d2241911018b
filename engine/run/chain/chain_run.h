#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/batch/batch_job.h"
#include "engine/plan/plan.h"
#include "engine/run/chain/chain.h"
#include "engine/run/record.h"

namespace dlflow {

/// The end of the names of all submissions of the run, and of no other run with the run's name.
std::string end_of_names(const Plan& plan);

/// The name of a submission, "RUN.7.train.5c1e": unique in the cluster, so that it is found by it.
std::string batch_name(const Plan& plan, uint32_t number, uint32_t step);

/// A run in a batch system, by its record. The caller holds RunLock; `services` must outlive the
/// object.
class ChainRun {
 public:
  ChainRun(const std::filesystem::path& run_directory, const ChainServices& services);
  ChainRun(const ChainRun&) = delete;
  ChainRun& operator=(const ChainRun&) = delete;

  const ChainServices& services() const { return services_; }
  BatchSystem& batch() const { return services_.batch; }
  Plan& plan() { return plan_; }
  const Plan& plan() const { return plan_; }
  RunRecord& record() { return record_; }
  const Jobs& jobs() const { return record_.jobs(); }

  const JobName& name(uint32_t job) const { return plan_.jobs[job].name; }
  uint32_t number_of(const JobName& job) const { return number_of_.at(job); }

  /// The batch system's id of the job's latest attempt; empty: it has none.
  const std::string& id(uint32_t job) const { return ids_[job]; }
  const std::vector<std::string>& ids() const { return ids_; }
  void forget_id(uint32_t job) { ids_[job].clear(); }
  /// Records that the batch system has the job, in `batch` and there as `task` if that is an array.
  void take_id(uint32_t job, const std::string& batch, uint32_t task);
  /// Identifies that job, even if a job of another user has the same number.
  JobIdentity identity(uint32_t job) const;

  /// Whether the job may share its task with other elements of its step (`pack`).
  bool is_packed(uint32_t job) const { return step_of(job).matrix.pack > 1; }

  /// The jobs whose latest attempts are in the same job of the batch system, this one among them.
  std::vector<uint32_t> sharers(uint32_t job) const;
  /// Whether there are others.
  bool shares_task(uint32_t job) const { return sharers(job).size() > 1; }

  /// The last state that the job's latest attempt has recorded of itself.
  std::optional<JobState> own_state(uint32_t job) const;

  /// Whether that is an end: no job of the batch system runs it any more.
  bool has_own_end(uint32_t job) const;

  const Step& step_of(uint32_t job) const { return plan_.workflow.steps[plan_.jobs[job].step]; }

  /// Whether the job was skipped or ended badly without a record in its folder: the login node
  /// decided it, or its end was never recorded.
  bool ended_unrecorded(uint32_t job) const;

  /// Notes such jobs in the plan, for the JobSpecs of their children.
  void note_unrecorded_ends();

  /// From now on, the batch system is known not to have the jobs that are still Submitting.
  void note_looked_up() { looked_up_ = true; }

  /// Blocks the job if it waits for one that ended badly: it never starts, even if the batch system
  /// has it. Returns whether it is blocked for good reason now.
  bool block_if_hopeless(uint32_t job);
  /// Blocks all such jobs.
  void block_hopeless();

  /// Takes the new events in the job's own record. Returns whether they move it: then the batch
  /// system's answer does not apply to it. A job that is planned again only has an old id.
  bool has_moved_on(uint32_t job);

  /// Writes the record to disk and to the store.
  void save();

 private:
  struct Loaded {
    Plan plan;
    RunStatus status;
  };
  static Loaded load(const std::filesystem::path& run_directory, Store& store);
  ChainRun(Loaded&& loaded, const ChainServices& services);

  const ChainServices& services_;
  Plan plan_;
  std::string end_of_names_ = dlflow::end_of_names(plan_);
  RunRecord record_;
  std::unordered_map<std::string_view, uint32_t> number_of_;
  std::vector<std::string> ids_;
  bool looked_up_ = false;
};

}  // namespace dlflow
