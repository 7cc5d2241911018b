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

/// Grid Engine's programs: qsub, qstat, qacct, qdel, qalter; to describe a cluster qconf and qhost.
namespace dlflow {

/// See BatchSystem. Where Grid Engine is not as SLURM:
///
/// - A job that waits for another is let go when that one ends, however it ends: job-exec looks at
///   the parents' records, as always, and records the job as blocked.
/// - qmaster forgets a job as soon as it ends, and what accounting knows comes some seconds later.
///   So what neither has is looked for again for a while before it counts as gone.
/// - It waits for whole arrays, or for the same task of an array of the same tasks; the tasks of an
///   array wait all for the same.
class GridEngineTools : public BatchSystem {
 public:
  explicit GridEngineTools(ToolOptions options = {});

  std::string_view name() const override { return "Grid Engine"; }

  /// One qsub.
  SubmitAnswer submit(const Batch& batch, const Profile& profile) const override;
  std::string script(const Batch& batch, const Profile& profile) const override;

  ArrayRules array_rules() const override;
  bool has_exclusive_nodes() const override { return false; }
  bool can_pack() const override { return false; }  // qdel is for a whole task

  /// One qstat.
  std::vector<BatchJob> queue() override;

  /// One qacct, of all that this user ran from an hour before `since` on: clocks differ.
  Accounting accounting(std::span<const std::string> ids, Time since) override;

  /// One qstat, and one qacct if a name is not in it.
  std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time since) override;

  /// One qstat; for a job that is not there also one qacct or, the first time, some.
  std::optional<std::vector<BatchJob>> show_job(const std::string& id) override;

  JobAnswer cancel(std::span<const JobIdentity> jobs) override;

  /// The same as cancel: jobs are told of it (`-notify`), and have the queue's `notify` time to
  /// save.
  JobAnswer ask_to_end(const JobIdentity& job) override;

  /// Refused for tasks.
  JobAnswer wait_for(std::span<const JobIdentity> jobs,
                     std::span<const Dependency> dependencies) override;

  std::string pending_in_words(const BatchJob& job, Time now) const override;

  /// The file cluster_name of the cell; else the folder of the cell.
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

/// The job of Grid Engine that this process runs in; nothing outside of one.
std::optional<Allocation> gridengine_allocation();

std::unique_ptr<BatchSystem> make_gridengine();

}  // namespace dlflow
