#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/batch/batch_system.h"
#include "engine/batch/tool_runner.h"

/// SLURM's programs, run as child processes: sbatch, squeue, sacct, scancel, scontrol, sinfo; to
/// describe a cluster also srun and sacctmgr.
namespace dlflow {

/// See BatchSystem. Queries are asked again after a failure that may pass: "squeue did not answer
/// within 30 s (tried 3 times)". Commands are shown by -v.
class SlurmTools : public BatchSystem {
 public:
  explicit SlurmTools(ToolOptions options = {});

  std::string_view name() const override { return "SLURM"; }
  std::string self_query() const override { return "scontrol show job \"$SLURM_JOB_ID\""; }

  /// One sbatch.
  SubmitAnswer submit(const Batch& batch, const Profile& profile) const override;
  std::string script(const Batch& batch, const Profile& profile) const override;
  /// The same with the script itself (script.h).
  SubmitAnswer submit(const std::string& script) const;

  ArrayRules array_rules() const override;

  /// One squeue. It shows jobs that have ended for some minutes (MinJobAge).
  std::vector<BatchJob> queue() override;

  /// One sacct, whose window begins an hour before `since`: clocks differ.
  Accounting accounting(std::span<const std::string> ids, Time since) override;

  /// One squeue, and one sacct if a name is not in it.
  std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time since) override;

  /// One scontrol.
  std::optional<std::vector<BatchJob>> show_job(const std::string& id) override;

  /// One squeue, and one scancel for each thousand.
  JobAnswer cancel(std::span<const JobIdentity> jobs) override;

  /// SIGINT to the batch shell alone, if it runs. One scontrol, and one scancel, which looks at the
  /// name, too.
  JobAnswer ask_to_end(const JobIdentity& job) override;

  /// One `scontrol show`, and one `scontrol update`, also for tasks of one array.
  JobAnswer wait_for(std::span<const JobIdentity> jobs,
                     std::span<const Dependency> dependencies) override;

  std::string pending_in_words(const BatchJob& job, Time now) const override;

  std::string cluster_name() override;
  /// Three queries: config, partitions, nodes.
  ClusterLimits cluster() override;
  std::string detect_profile(const std::string& path, const std::string& partition) override;

  /// `scontrol update jobid=ID KEY=VALUE`: Requeue=1, MinMemoryNode=4096.
  JobAnswer update(const std::string& id, const std::string& key, const std::string& value);
  /// Per node.
  JobAnswer update_memory(const std::string& id, uint64_t bytes);

  JobAnswer update_time_limit(const std::string& id, std::chrono::minutes limit);

  /// Back to the queue with the same id; a running job is killed first.
  JobAnswer requeue(const std::string& id);

  /// Accounts that this user may charge; empty if that cannot be told.
  std::vector<std::string> accounts();
  /// How many jobs this user may have submitted at a time, as the accounting database has it of the
  /// user's associations and their default QOS; 0 if it names no limit, or cannot be asked.
  int submit_limit();
  /// What `srun --mpi` takes: "pmix", "pmi2"; empty if that cannot be told.
  std::vector<std::string> mpi_types();

 private:
  /// The lines that sacctmgr shows of this user's associations; none if it cannot tell.
  std::vector<std::string> associations(const std::string& format);
  std::string answer(const std::vector<std::string>& argv);
  JobAnswer request(const std::vector<std::string>& argv);
  Accounting sacct(std::vector<std::string> argv, Time since);
  /// The name of jobs, or tasks of one array, as the controller has it; empty if one of them is not
  /// ours any more. Throws Error{Unavailable} if it does not answer.
  std::string name_of_ours(std::span<const JobIdentity> jobs);
  /// As `id` knows it, or the number: a static program cannot ask the directory of users itself.
  std::string user_name(const std::string& number);

  std::string drained_nodes() const;

  ToolRunner runner_;
  mutable std::optional<std::string> drained_nodes_;  // as of the last look at the queue
  std::vector<std::string> submission_environment_;
};

std::unique_ptr<BatchSystem> make_slurm();

}  // namespace dlflow
