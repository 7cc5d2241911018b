#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "engine/slurm/answers.h"
#include "engine/slurm/cluster.h"
#include "engine/slurm/output.h"

/// SLURM's programs, run as child processes: sbatch, squeue, sacct, scancel, scontrol, sinfo; to
/// describe a cluster also srun and sacctmgr.
namespace dlflow {

struct SlurmToolOptions {
  std::chrono::milliseconds time_limit{30'000};                  ///< of one command
  int tries = 3;                                                 ///< of what may be asked twice
  std::chrono::milliseconds first_pause{1'000};                  ///< before the second try; doubles
  std::function<void(std::chrono::milliseconds)> sleep = {};     ///< empty: really sleep
  std::vector<std::string> environment = current_environment();  ///< of dlflow itself
  /// Requests go on when SIGTERM reaches all processes of a job that SLURM ends.
  bool outlives_sigterm = false;
};

/// What sacct said. Without accounting there is no answer, which is no error: `missing` says why.
struct Accounting {
  std::vector<SlurmJob> jobs;
  std::string missing;  ///< "Slurm accounting storage is disabled"; empty: `jobs` is the answer
};

/// What of `environment` sbatch gets, and so each job: what a shell on the cluster needs to find
/// programs, modules, and the controller (SLURM_CONF). Nothing that would let two submissions of
/// the same run differ, and no SBATCH_*, which would undo the script's options.
std::vector<std::string> submission_environment(std::span<const std::string> environment);

/// One thread calls it, but for submit(). No call changes a job twice. All throw Error{NotFound} if
/// the program is missing, and the queries Error{Unavailable} if SLURM did not answer, however
/// often it was asked: "squeue did not answer within 30 s (tried 3 times)". Commands are shown by
/// -v.
class SlurmTools {
 public:
  explicit SlurmTools(SlurmToolOptions options = {});

  /// Submits a script (script.h), once: what is Unclear may have been accepted. Several threads may
  /// be in it (see submissions.h).
  SbatchAnswer submit(const std::string& script) const;

  /// All jobs of this user that the controller still knows, array tasks one by one, ended ones
  /// among them for some minutes (MinJobAge). One squeue.
  std::vector<SlurmJob> queue();

  /// The jobs and arrays `ids` as accounting has them. One sacct, whose window begins at `since`
  /// (when the first was submitted; an hour earlier is asked for, since clocks differ). Asked once:
  /// slurmdbd may be away for long, and what runs is known without it.
  Accounting accounting(std::span<const std::string> ids, Time since);

  /// The jobs called one of `names`: for adopting what was submitted before a kill or an unclear
  /// answer. One squeue, and one sacct if a name is not in it.
  std::vector<SlurmJob> find_by_name(std::span<const std::string> names, Time since);

  /// Job or array `id` (with all its tasks) as the controller has it in memory. Empty if it says
  /// that there is no such job; nothing if it says neither. One scontrol.
  std::optional<std::vector<SlurmJob>> show_job(const std::string& id);

  /// Cancels jobs, arrays ("812") or tasks ("812_3"). What has ended stays as it is.
  JobAnswer cancel(std::span<const std::string> ids);
  /// Sends `signal` ("USR1") to the batch shell alone.
  JobAnswer signal_batch(const std::string& id, const std::string& signal);

  /// `scontrol update jobid=ID KEY=VALUE`: dependency=afterok:812, TimeLimit=30,
  /// MinMemoryNode=4096.
  JobAnswer update(const std::string& id, const std::string& key, const std::string& value);
  JobAnswer update_dependency(const std::string& id, const std::string& dependency);
  JobAnswer update_time_limit(const std::string& id, std::chrono::minutes limit);
  /// Per node.
  JobAnswer update_memory(const std::string& id, uint64_t bytes);

  /// Back to the queue with the same id; a running job is killed first.
  JobAnswer requeue(const std::string& id);
  JobAnswer release(const std::string& id);

  /// What the cluster is called that these tools speak to. One query.
  std::string cluster_name();
  /// Three queries: config, partitions, nodes.
  ClusterLimits cluster();
  /// Accounts that this user may charge; empty if that cannot be told.
  std::vector<std::string> accounts();
  /// How many jobs this user may have submitted at a time, as the accounting database has it of the
  /// user's associations and their default QOS; 0 if it names no limit, or cannot be asked.
  int submit_limit();
  /// What `srun --mpi` takes: "pmix", "pmi2"; empty if that cannot be told.
  std::vector<std::string> mpi_types();

 private:
  Output run_once(const std::vector<std::string>& argv);
  Output run_if_there(const std::vector<std::string>& argv);
  /// The lines that sacctmgr shows of this user's associations; none if it cannot tell.
  std::vector<std::string> associations(const std::string& format);
  Output ask(const std::vector<std::string>& argv);
  std::string answer(const std::vector<std::string>& argv);
  JobAnswer request(const std::vector<std::string>& argv);
  Accounting sacct(std::vector<std::string> argv, Time since);
  /// As `id` knows it, or the number: a static program cannot ask the directory of users itself.
  std::string user_name(const std::string& number);

  SlurmToolOptions options_;
  std::vector<std::string> query_environment_;
  std::vector<std::string> submission_environment_;
};

}  // namespace dlflow
