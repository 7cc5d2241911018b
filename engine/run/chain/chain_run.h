#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/batch/batch_job.h"
#include "engine/decide/needed_inputs.h"
#include "engine/plan/plan.h"
#include "engine/run/chain/chain.h"
#include "engine/run/record.h"

namespace dlflow {

/// The end of the names of all submissions of the run, and of no other run with the run's name.
std::string end_of_names(const Plan& plan);

/// The name of a submission: unique in the cluster, and what it is found by.
std::string batch_name(const Plan& plan, uint32_t number, uint32_t step);

/// A run in a batch system, as its record has it. For whoever holds RunLock; `services` must
/// outlive it.
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

  const std::string& name(uint32_t job) const { return plan_.jobs[job].name; }
  uint32_t number_of(std::string_view job) const { return number_of_.at(job); }

  /// The batch system's id of the job's latest attempt; empty: it has none.
  const std::string& id(uint32_t job) const { return ids_[job]; }
  const std::vector<std::string>& ids() const { return ids_; }
  void set_id(uint32_t job, const std::string& id) { ids_[job] = id; }
  /// Identifies that job, also beside a stranger's with the same number.
  JobIdentity identity(uint32_t job) const;

  /// Whether the job may share its task with other elements of its step (`pack`).
  bool is_packed(uint32_t job) const { return step_of(job).matrix.pack > 1; }

  /// The jobs whose latest attempts are in the same job of the batch system, this one among them.
  std::vector<uint32_t> sharers(uint32_t job) const;
  /// Whether there are others.
  bool shares_task(uint32_t job) const;

  /// The last state that the job's latest attempt has recorded of itself.
  std::optional<JobState> own_state(uint32_t job) const;

  /// Whether that is an end: no job of the batch system runs it any more.
  bool has_own_end(uint32_t job) const;

  /// Whether `child` may run as far as `parent` is concerned, as that stands by now.
  bool lets_run(uint32_t child, uint32_t parent) const {
    return dlflow::lets_run(step_of(child), step_of(parent), jobs()[parent].state);
  }
  const Step& step_of(uint32_t job) const { return plan_.workflow.steps[plan_.jobs[job].step]; }

  /// Whether the job was skipped or ended badly, and its folder does not say so: only the login
  /// node has decided it, or nobody recorded the end.
  bool ended_unrecorded(uint32_t job) const;

  /// Notes such jobs in the plan, for the JobSpec of those that need them.
  void note_unrecorded_ends();

  /// How many jobs have an id.
  size_t num_submitted() const;

  /// "RUN.7.train.5c1e": found by its number in the run, and by nobody else's run of that name.
  std::string batch_name(uint32_t number, uint32_t step) const;

  /// From now on, what is still Submitting is known not to be in the batch system.
  void note_looked_up() { looked_up_ = true; }

  /// Blocks the job if it waits for one that ended badly: it never starts, whatever the batch
  /// system shows of it. Returns whether it is blocked for good reason now.
  bool block_if_hopeless(uint32_t job);
  /// Blocks all such jobs.
  void block_hopeless();

  /// Takes what the job has recorded of itself meanwhile. Whether that moves it on: what the batch
  /// system's answer means is then not said of it. What is planned again only has an id of before.
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
  bool any_sharer(uint32_t job, const std::function<bool(uint32_t other)>& look) const;

  const ChainServices& services_;
  Plan plan_;
  std::string end_of_names_ = dlflow::end_of_names(plan_);
  RunRecord record_;
  std::unordered_map<std::string_view, uint32_t> number_of_;
  std::vector<std::string> ids_;
  bool looked_up_ = false;
};

}  // namespace dlflow
