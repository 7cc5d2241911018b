#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/batch/allocation.h"
#include "engine/batch/batch_system.h"
#include "engine/batch/tool_runner.h"

/// Runs Grid Engine's qsub, qstat, qacct, qdel, qalter; to describe a cluster also qconf and qhost.
namespace dlflow {

/// See BatchSystem. Grid Engine differs from SLURM:
///
/// - A job is released when its parents end, successful or not: job-exec reads the parents'
///   records, as always, and records the job as blocked if one failed.
/// - qmaster forgets a job as soon as it ends, and accounting has it some seconds later. So a job
///   that neither has is looked up again for a while before it counts as gone.
/// - All tasks of an array wait for the same jobs, or each for its counterpart in an array with the
///   same tasks.
class GridEngineTools : public BatchSystem {
 public:
  explicit GridEngineTools(ToolOptions options = {});

  std::string_view name() const override { return "Grid Engine"; }

  /// The call runs one qsub.
  SubmitCall render(const Batch& batch, const Profile& profile) const override;

  ArrayRules array_rules() const override;
  bool has_exclusive_nodes() const override { return false; }
  bool can_pack() const override { return false; }  // qdel kills whole tasks

  /// Runs one qstat.
  std::vector<BatchJob> queue() override;

  /// Runs one qacct, for this user's jobs from an hour before `since` on, because clocks differ.
  Accounting accounting(std::span<const std::string> ids, Time since) override;

  /// Runs one qstat, and one qacct if a name is missing there.
  std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time since) override;

  /// Runs one qstat; for a missing job also one qacct or, the first time, several.
  std::optional<std::vector<BatchJob>> show_job(const std::string& id) override;

  JobAnswer cancel(std::span<const JobIdentity> jobs) override;

  /// Like cancel(): jobs are notified (`-notify`), and have the queue's `notify` time to save.
  JobAnswer ask_to_end(const JobIdentity& job) override;

  /// Refuses single tasks of an array.
  JobAnswer wait_for(std::span<const JobIdentity> jobs,
                     std::span<const Dependency> dependencies) override;

  std::string pending_in_words(const BatchJob& job, Time now) const override;

  /// The content of the cell's file cluster_name, otherwise the cell's folder.
  std::string cluster_name() override;
  ClusterLimits cluster() override;
  std::string detect_profile(const std::string& path, const std::string& partition) override;

 private:
  std::string user_name();
  Accounting qacct(const std::vector<std::string>& selection);
  std::string variable(std::string_view name) const;

  ToolRunner runner_;
  std::vector<std::string> submission_environment_;
  bool has_waited_for_accounting_ = false;
};

/// The Grid Engine job that this process runs in; nothing outside of one.
std::optional<Allocation> gridengine_allocation();

std::unique_ptr<BatchSystem> make_gridengine();

}  // namespace dlflow
