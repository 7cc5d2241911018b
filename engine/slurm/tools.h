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

/// Runs SLURM's programs as child processes: sbatch, squeue, sacct, scancel, scontrol, sinfo; to
/// describe a cluster also srun and sacctmgr.
namespace dlflow {

/// See BatchSystem. Queries are retried after temporary failures: "squeue did not answer within 30
/// s (tried 3 times)". -v shows the commands.
class SlurmTools : public BatchSystem {
 public:
  explicit SlurmTools(ToolOptions options = {});

  std::string_view name() const override { return "SLURM"; }
  std::string self_query() const override { return "scontrol show job \"$SLURM_JOB_ID\""; }

  SubmitCall render(const Batch& batch, const Profile& profile) const override;
  /// Runs one sbatch with a given script (script.h).
  SubmitAnswer submit(const std::string& script) const;

  ArrayRules array_rules() const override;

  /// Runs one squeue, which also shows jobs for some minutes after their end (MinJobAge).
  std::vector<BatchJob> queue() override;

  /// Runs one sacct, whose window begins an hour before `since`, because clocks differ.
  Accounting accounting(std::span<const std::string> ids, Time since) override;

  /// Runs one squeue, and one sacct if a name is missing there.
  std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time since) override;

  /// Runs one scontrol.
  std::optional<std::vector<BatchJob>> show_job(const std::string& id) override;

  /// Runs one squeue, and one scancel for each thousand jobs.
  JobAnswer cancel(std::span<const JobIdentity> jobs) override;

  /// Sends SIGINT to the batch shell only, if it runs. Runs one scontrol, and one scancel that also
  /// checks the name.
  JobAnswer ask_to_end(const JobIdentity& job) override;

  /// Runs one `scontrol show` and one `scontrol update`, also for several tasks of one array.
  JobAnswer wait_for(std::span<const JobIdentity> jobs,
                     std::span<const Dependency> dependencies) override;

  std::string pending_in_words(const BatchJob& job, Time now) const override;

  std::string cluster_name() override;
  /// Runs three queries: config, partitions, nodes.
  ClusterLimits cluster() override;
  std::string detect_profile(const std::string& path, const std::string& partition) override;

  /// Runs `scontrol update jobid=ID KEY=VALUE`: Requeue=1, MinMemoryNode=4096.
  JobAnswer update(const std::string& id, const std::string& key, const std::string& value);

  /// Puts the job back into the queue with the same id. A running job is killed first.
  JobAnswer requeue(const std::string& id);

  /// The accounts that this user may charge; empty if unknown.
  std::vector<std::string> accounts();
  /// The number of jobs that this user may have submitted at a time, from the user's associations
  /// and their default QOS in the accounting database; 0 if there is no limit or no answer.
  int submit_limit();
  /// The values of `srun --mpi`: "pmix", "pmi2"; empty if unknown.
  std::vector<std::string> mpi_types();

 private:
  /// The lines of sacctmgr for this user's associations; empty if it fails.
  std::vector<std::string> associations(const std::string& format);
  std::string answer(const std::vector<std::string>& argv);
  JobAnswer request(const std::vector<std::string>& argv);
  Accounting sacct(std::vector<std::string> argv, Time since);
  /// The controller's name of jobs, or of tasks of one array; empty if one of them is no longer
  /// ours. Throws Error{Unavailable} if it does not answer.
  std::string name_of_ours(std::span<const JobIdentity> jobs);
  /// The name printed by `id`, or else the number: a static program cannot query NSS itself.
  std::string user_name(const std::string& number);

  std::string drained_nodes() const;

  ToolRunner runner_;
  mutable std::optional<std::string> drained_nodes_;  // from the last query of the queue
  std::vector<std::string> submission_environment_;
};

std::unique_ptr<BatchSystem> make_slurm();

}  // namespace dlflow
