#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"

/// A job as a batch system describes it, in terms that all of them share.
namespace dlflow {

enum class BatchState {
  Pending,
  Configuring,  ///< nodes boot
  Running,
  Suspended,
  Completing,  ///< its processes are ending; its exit status is not known yet
  Requeued,    ///< goes back to pending
  Held,        ///< requeued, and waits for somebody to release it
  Completed,
  Failed,
  Cancelled,
  Timeout,
  OutOfMemory,
  NodeFail,
  Preempted,
  BootFail,
  Deadline,
  Revoked,
  Unknown,  ///< a state that no known version prints
};

/// "pending", "out of memory", …: for people.
std::string_view words(BatchState state);

/// Whether the batch system will do nothing more with the job by itself. False for Unknown.
bool is_over(BatchState state);

/// Whether no program of it runs and it is not over: it can be taken from the queue, but cannot be
/// asked to save.
bool has_not_begun(BatchState state);

/// Whether `text` consists of digits.
bool is_number(std::string_view text);

/// One job, or one task of a job array. Unknown values are empty or absent.
struct BatchJob {
  std::string id;  ///< "812", "812_3"
  std::string name;
  BatchState state = BatchState::Unknown;
  std::string reason;         ///< of its wait or of its end, in the batch system's words
  bool never_starts = false;  ///< pending, and its dependencies count as failed
  bool is_held = false;       ///< it stays as it is until somebody releases it
  std::string dependency;     ///< in the batch system's words: "afterok:811(unfulfilled)"
  std::string node;           ///< a list of nodes: "alpha-n[1-2]"
  std::optional<std::chrono::seconds> elapsed;
  std::optional<std::chrono::seconds> limit;  ///< absent: unlimited, or not known
  std::optional<Time> start;                  ///< for a pending job: its expected start
  std::optional<Time> end;
  std::optional<Time> submitted;  ///< or requeued
  std::optional<int> exit;        ///< exit status of the batch script
  int signal = 0;                 ///< the signal that ended it; 0: none
  bool log_refused = false;       ///< its node could not write the log: nothing of the job ran
  std::string cancelled_by;       ///< the user who cancelled it
  int cpus = 0;                   ///< allocated; 0: not known
  std::optional<std::chrono::milliseconds> cpu_time;  ///< of all its processes
  uint64_t max_memory_bytes = 0;                      ///< its use; 0: not measured
  double energy_joules = 0;                           ///< of its nodes; 0: not measured

  bool operator==(const BatchJob&) const = default;
};

/// Jobs by their ids: a later job with the same id replaces the earlier one, in its place.
class BatchJobs {
 public:
  void put(BatchJob job);

  /// Null if there is none with that id.
  BatchJob* find(std::string_view id);

  size_t size() const { return jobs_.size(); }
  std::vector<BatchJob> take() { return std::move(jobs_); }

 private:
  std::vector<BatchJob> jobs_;
  std::unordered_map<std::string, size_t> places_;  // by id
};

/// The end of a job in words, for people; empty if it has not ended: "out of memory", "walltime of
/// 20:00 reached", "cancelled by user 1000", "exit 3".
std::string ending_in_words(const BatchJob& job);

/// "812" of "812_3" and "812".
std::string_view array_id(std::string_view id);
/// 3 of "812_3"; nothing of "812".
std::optional<uint32_t> array_task(std::string_view id);

/// Formats 0 1 2 3 4 7 as "0-4,7"; `tasks` must be ascending. Empty if there are none.
std::string format_array_range(std::span<const uint32_t> tasks);

/// Parses "[0-4,7%50]", "0-10:2" or "[1-3,...]" (squeue truncates long lists) into at most
/// `at_most` tasks. Ignores what it cannot parse.
std::vector<uint32_t> parse_array_range(std::string_view text, size_t at_most);

/// A job of ours in a batch system. Its number alone proves nothing: numbers restart after
/// MaxJobId, and when a controller is rebuilt, so that it may belong to a job of another user or
/// another run by now.
struct JobIdentity {
  std::string id;          ///< "812", "812_3"
  std::string name_begin;  ///< "demo-1.": the name of a submission without its number in the run,
  std::string name_end;    ///< ".train.5c1e"; empty: any end
  Time since{};            ///< none of the run's jobs was submitted before; a requeue is later

  /// Whether `job`, as the batch system describes it, is this one. A missing submit time is no
  /// evidence.
  bool is(const BatchJob& job) const;
};

/// The ids of the jobs of `ours` that are in `known`.
std::vector<std::string> ids_of_known(std::span<const JobIdentity> ours,
                                      std::span<const BatchJob> known);

/// The jobs with one of `ids`, which may be arrays.
std::vector<BatchJob> jobs_with_ids(std::vector<BatchJob> jobs, std::span<const std::string> ids);

/// The jobs with one of `names` in `queue`; those that are missing there, from the result of
/// `ended`, if that is given.
std::vector<BatchJob> jobs_with_names(std::vector<BatchJob> queue,
                                      std::span<const std::string> names,
                                      const std::function<std::vector<BatchJob>()>& ended = {});

/// "job 812 has ended, or its number is another job's by now".
std::string no_longer_ours(const JobIdentity& job);

}  // namespace dlflow
