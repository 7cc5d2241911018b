#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "engine/batch/batch.h"
#include "engine/batch/batch_job.h"
#include "engine/batch/cluster.h"

/// The batch system of a cluster: all that the engine knows of it.
namespace dlflow {

struct Accepted {
  std::string id;
};

struct Refused {
  std::string message;
  bool too_many = false;  ///< a limit of submitted jobs: later it may be accepted
};

/// The job may or may not be there: look for its name before submitting it again.
struct Unclear {
  std::string message;
};

using SubmitAnswer = std::variant<Accepted, Refused, Unclear>;

/// The result of a request about jobs that are there.
struct JobAnswer {
  enum class Kind {
    Done,     ///< also if it was so before
    Gone,     ///< the batch system does not know the job any more, or it has ended
    Refused,  ///< see `message`
  };
  Kind kind = Kind::Done;
  std::string message;
};

/// The answer of the accounting. Without accounting there is no answer, which is no error.
struct Accounting {
  std::vector<BatchJob> jobs;
  std::string missing;   ///< "Slurm accounting storage is disabled"; empty: `jobs` is the answer
  bool complete = true;  ///< asking again would tell no more: it answered, or there is none
};

/// The limits of one array.
struct ArrayRules {
  uint32_t max_size = 1001;     ///< the highest task number plus one, unless the profile says
  size_t max_text = 0;          ///< of the list of its tasks, in bytes; 0: any
  bool gaps = true;             ///< tasks need not be consecutive
  size_t max_dependencies = 0;  ///< of one submission; 0: any
  bool same_tasks = false;      ///< task by task waits only an array for one with the same tasks
};

/// One thread calls it, but for submit(). No call changes a job twice. Queries throw
/// Error{Unavailable} if the batch system did not answer, however often it was asked, and every
/// call Error{NotFound} if its tools are missing. Implementations: SlurmTools, GridEngineTools,
/// tests/support/FakeBatchSystem.
class BatchSystem {
 public:
  virtual ~BatchSystem() = default;

  /// "SLURM": in messages.
  virtual std::string_view name() const = 0;

  /// The command by which a job asks about itself, as a shell has it; empty if jobs do not.
  virtual std::string self_query() const { return ""; }

  /// Submits once: what is Unclear may have been accepted. Several threads may be in it. Throws
  /// Error{InvalidInput} if the batch cannot be expressed.
  virtual SubmitAnswer submit(const Batch& batch, const Profile& profile) const = 0;

  /// What submit() gives to the batch system, as text for people. Throws as submit().
  virtual std::string script(const Batch& batch, const Profile& profile) const = 0;

  /// How many submissions gain by being under way at once.
  virtual size_t submissions_at_once() const { return 4; }

  virtual ArrayRules array_rules() const = 0;

  /// Whether a job can ask that no other shares its nodes.
  virtual bool has_exclusive_nodes() const { return true; }

  /// Whether one of several elements that share a job can be asked to end, and the job goes on.
  virtual bool can_pack() const { return true; }

  /// All jobs of this user that wait or run, array tasks one by one; ended ones may be among them
  /// for some minutes. One query.
  virtual std::vector<BatchJob> queue() = 0;

  /// The jobs and arrays `ids` as accounting has them. Asked once: accounting may be away for long,
  /// and what runs is known without it. \param since  when the first of them was submitted.
  virtual Accounting accounting(std::span<const std::string> ids, Time since) = 0;

  /// The jobs called one of `names`, from queue and accounting: for adopting what was submitted
  /// before a kill or an unclear answer.
  virtual std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time since) = 0;

  /// Job or array `id` (with all its tasks) as the controller has it. Empty if it says that there
  /// is no such job; nothing if it says neither.
  virtual std::optional<std::vector<BatchJob>> show_job(const std::string& id) = 0;

  // Each of the next three asks directly before it acts whether the jobs are still ours: what has
  // one of their numbers and is not (JobIdentity) stays as it is.

  /// Cancels jobs, or tasks of arrays. What has ended stays as it is.
  virtual JobAnswer cancel(std::span<const JobIdentity> jobs) = 0;

  /// Tells the batch shell of a running job that it is to save and to end.
  virtual JobAnswer ask_to_end(const JobIdentity& job) = 0;

  /// Jobs, or tasks of one array, that wait in the queue wait for `dependencies` instead. All of
  /// them, or not Done.
  virtual JobAnswer wait_for(std::span<const JobIdentity> jobs,
                             std::span<const Dependency> dependencies) = 0;

  /// Why a job waits, for people: "waits for free nodes, starts in about 2:10:00". Empty if it
  /// waits for other jobs: for which is known better from the workflow.
  virtual std::string pending_in_words(const BatchJob& job, Time now) const = 0;

  /// What the cluster is called. One query.
  virtual std::string cluster_name() = 0;

  virtual ClusterLimits cluster() = 0;

  /// The text of a profile of this cluster, for jobs in `partition` (empty: the default one), with
  /// comments on what only a person can decide. Looks for launchers and container tools in `path`
  /// (as $PATH). Throws Error{NotFound} naming the partitions if there is no such one.
  virtual std::string detect_profile(const std::string& path, const std::string& partition) = 0;
};

}  // namespace dlflow
