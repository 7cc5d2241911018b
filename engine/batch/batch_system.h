#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "engine/batch/batch.h"
#include "engine/batch/batch_job.h"
#include "engine/model/profile.h"

/// The batch system of a cluster. The engine uses it only through this interface.
namespace dlflow {

struct Accepted {
  std::string id;
};

struct Refused {
  std::string message;
  bool too_many = false;  ///< because of a limit on submitted jobs: later it may be accepted
};

/// The job may or may not exist: look for its name before submitting it again.
struct Unclear {
  std::string message;
};

using SubmitAnswer = std::variant<Accepted, Refused, Unclear>;

/// A batch in the form that the batch system takes.
struct SubmitCall {
  std::string text;  ///< its input, for people
  /// Submits once: a job with the answer Unclear may have been accepted. Several threads may call
  /// those of one batch system, which must outlive them.
  std::function<SubmitAnswer()> submit;
};

/// The result of a request about existing jobs.
struct JobAnswer {
  enum class Kind {
    Done,     ///< also if nothing had to change
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
  bool complete = true;  ///< another question would not help: it answered, or there is no
                         ///< accounting
};

/// The limits of one array.
struct ArrayRules {
  uint32_t max_size = 1001;     ///< the highest task number plus one, unless the profile sets it
  size_t max_text = 0;          ///< of the list of its tasks, in bytes; 0: any
  bool gaps = true;             ///< tasks need not be consecutive
  size_t max_dependencies = 0;  ///< of one submission; 0: any
  bool same_tasks = false;      ///< waiting task by task needs two arrays of the same tasks
};

// A cluster as it describes itself. A value that is not known is 0, empty or absent.

/// Limits of one partition (Grid Engine: queue); absent: no limit.
struct PartitionInfo {
  std::string name;
  bool is_default = false;
  bool is_up = true;
  std::optional<std::chrono::seconds> max_walltime;
  std::optional<std::chrono::seconds> default_walltime;
  std::optional<int> max_nodes;  ///< of one job
  int nodes = 0;
  NodeShape node;  ///< the largest of each: a job that needs more does not fit on any node
  std::vector<std::string> gpu_types;

  bool operator==(const PartitionInfo&) const = default;
};

struct ClusterLimits {
  std::string cluster;
  std::string version;      ///< "22.05.8"
  int max_array_size = 0;   ///< the highest task number plus one
  int max_job_count = 0;    ///< of all users together
  bool accounting = false;  ///< it can report the ends of old jobs
  std::vector<PartitionInfo> partitions;

  /// The partition with that name; for an empty name the default one. Null if there is none.
  const PartitionInfo* partition(std::string_view name) const {
    for (const PartitionInfo& each : partitions) {
      if (name.empty() ? each.is_default : each.name == name) return &each;
    }
    return nullptr;
  }
};

/// Called by one thread. No call changes a job twice. Queries throw Error{Unavailable} if the batch
/// system did not answer after several tries, and every call Error{NotFound} if its tools are
/// missing. Implementations: SlurmTools, GridEngineTools, tests/support/FakeBatchSystem.
class BatchSystem {
 public:
  virtual ~BatchSystem() = default;

  /// "SLURM": in messages.
  virtual std::string_view name() const = 0;

  /// The shell command by which a job asks about itself; empty if jobs do not.
  virtual std::string self_query() const { return ""; }

  /// The call that submits `batch`. Throws Error{InvalidInput} if the batch cannot be expressed.
  virtual SubmitCall render(const Batch& batch, const Profile& profile) const = 0;

  /// The number of submissions that are worth making at once.
  virtual size_t submissions_at_once() const { return 4; }

  virtual ArrayRules array_rules() const = 0;

  /// Whether a job can ask for nodes of its own.
  virtual bool has_exclusive_nodes() const { return true; }

  /// Whether one of several elements that share a job can be asked to end while the job continues.
  virtual bool can_pack() const { return true; }

  /// All jobs of this user that wait or run, array tasks one by one; for some minutes also ended
  /// ones. One query.
  virtual std::vector<BatchJob> queue() = 0;

  /// The accounting's entries of the jobs and arrays `ids`. Asked once: accounting may be away for
  /// long, and running jobs are known without it. \param since  the submission of the first of
  /// them.
  virtual Accounting accounting(std::span<const std::string> /*ids*/, Time /*since*/) {
    return {.jobs = {}, .missing = "there is no accounting"};
  }

  /// The jobs with one of `names`, from queue and accounting: to adopt jobs submitted before a kill
  /// or an unclear answer.
  virtual std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time /*since*/) {
    return jobs_with_names(queue(), names);
  }

  /// Job or array `id` (with all its tasks) by the controller. Empty if it denies that there is
  /// such a job; nothing if it gives no answer.
  virtual std::optional<std::vector<BatchJob>> show_job(const std::string& id) {
    return jobs_with_ids(queue(), {&id, 1});
  }

  // Each of the next three checks directly before it acts that the jobs are still ours: another job
  // with one of their numbers (JobIdentity) stays as it is.

  /// Cancels jobs, or tasks of arrays. Ended ones stay as they are.
  virtual JobAnswer cancel(std::span<const JobIdentity> jobs) = 0;

  /// Asks the batch shell of a running job to save and to end.
  virtual JobAnswer ask_to_end(const JobIdentity& job) = 0;

  /// Makes queued jobs, or queued tasks of one array, wait for `dependencies` instead. Done only if
  /// that holds for all of them.
  virtual JobAnswer wait_for(std::span<const JobIdentity> jobs,
                             std::span<const Dependency> dependencies) = 0;

  /// Why a job waits, for people: "waits for free nodes, starts in about 2:10:00". Empty if it
  /// waits for other jobs, which the workflow names better.
  virtual std::string pending_in_words(const BatchJob& /*job*/, Time /*now*/) const { return ""; }

  /// The cluster's name. One query.
  virtual std::string cluster_name() = 0;

  virtual ClusterLimits cluster() {
    return {.cluster = cluster_name(), .version = "", .partitions = {}};
  }

  /// The text of a profile of this cluster, for jobs in `partition` (empty: the default one), with
  /// comments on choices that only a person can make. Looks for launchers and container tools in
  /// `path` (as $PATH). Throws Error{NotFound} naming the partitions if `partition` is none of
  /// them.
  virtual std::string detect_profile(const std::string& path, const std::string& partition) = 0;
};

}  // namespace dlflow
