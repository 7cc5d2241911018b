#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch/batch_file.h"
#include "engine/plan/withdrawn.h"
#include "engine/supervisor/claim.h"
#include "engine/supervisor/parents.h"
#include "tests/support/fake_batch_system.h"
#include "tests/support/fake_supervisor.h"

namespace dlflow::test {

/// The compute nodes of a FakeBatchSystem: they act as `dlflow job-exec` does there, without
/// processes. They record what runs, so that a test can see whether anything ran twice.
class FakeNodes {
 public:
  FakeNodes(FakeBatchSystem& batch, FakeClock& clock) : batch_(batch), clock_(clock) {}

  std::map<std::string, Json> outputs;   ///< by job
  std::map<std::string, int> runs;       ///< number of passes begun, by job
  std::map<std::string, int> successes;  ///< by job
  std::vector<std::string> overlaps;     ///< jobs that began while another of their passes ran
  std::vector<std::string> repeated;     ///< jobs that began after they had succeeded

  /// The number of next records that the login node does not see until show_records(): a network
  /// file system may take a minute. The nodes see them.
  int late_records = 0;
  /// Begins a free job. The job of an ended or withdrawn attempt ends at once; a task shared by
  /// several attempts continues with the next. Returns whether a program runs now.
  bool begin(const std::string& id) {
    show_records();
    batch_.begin(id);
    again_.erase(id);
    had_turn_.erase(id);
    return go_on(id);
  }

  /// Ends the attempt of a running job. A shared task continues with the next attempt.
  void end(const std::string& id, JobState state) {
    const BatchTask task = take_from(id);
    if (attempts_of(id).size() == 1) return record(id, task, state);
    append_end(id, task, state);
    go_on(id);
  }

  void pass(const std::string& id, JobState state) {
    begin(id);
    end(id, state);
  }

  /// Fails the job's node, without a record.
  void fail_node(const std::string& id) {
    take_from(id);
    batch_.end(id, BatchState::NodeFail);
  }

  /// The attempt saves at its walltime, and returns to the queue with those that had no turn.
  void requeue(const std::string& id) {
    const BatchTask task = take_from(id);
    append(id, task, JobState::Queued);
    batch_.requeue(id);
  }

  /// The attempt runs again after the others of its task have had their turn.
  void try_again(const std::string& id) {
    const BatchTask task = take_from(id);
    append(id, task, JobState::Queued);
    again_.insert(id);
    go_on(id);
  }

  bool has_unseen_records() const { return !unseen_.empty(); }

  /// Makes all records of the nodes visible to the login node.
  void show_records() {
    for (auto& [file, lines] : std::exchange(unseen_, {})) {
      std::ofstream(file, std::ios::app) << lines;
    }
  }

  /// Begins and ends jobs until none can run.
  void run_all() {
    for (bool any = true; any;) {
      any = false;
      for (const std::string& id : open_ids()) {
        if (!is_of_run(id)) continue;
        const BatchState state = batch_.jobs().at(id).shown.state;
        if (state == BatchState::Running) {
          end(id, JobState::Succeeded);
          any = true;
        }
        if (state == BatchState::Pending && batch_.is_free(id)) {
          if (begin(id)) end(id, JobState::Succeeded);
          any = true;
        }
      }
    }
  }

  /// The waiting and running jobs.
  std::vector<std::string> open_ids() const {
    std::vector<std::string> ids;
    for (const auto& [id, job] : batch_.jobs()) {
      if (!is_over(job.shown.state)) ids.push_back(id);
    }
    return ids;
  }

  /// False if the number belongs to another run's job.
  bool is_of_run(const std::string& id) const {
    const FakeBatchSystem::Job& job = batch_.jobs().at(id);
    return job.shown.name == job.batch.name;
  }

  /// The active job of a task, or its first.
  std::string job_of(const std::string& id) const {
    const auto at_work = at_work_.find(id);
    return at_work == at_work_.end() ? attempts_of(id).front().spec.job : at_work->second.spec.job;
  }

  /// All jobs that a task was submitted for.
  std::vector<std::string> jobs_of(const std::string& id) const {
    std::vector<std::string> jobs;
    for (const BatchTask& task : attempts_of(id)) jobs.push_back(task.spec.job);
    return jobs;
  }

  /// Parses the command of the job's script: PROGRAM job-exec FILE NUMBER {task}. A submission
  /// never changes, so it is read once.
  const std::vector<BatchTask>& attempts_of(const std::string& id) const {
    const auto known = submitted_.find(id);
    if (known != submitted_.end()) return known->second;
    const FakeBatchSystem::Job& job = batch_.jobs().at(id);
    return submitted_[id] =
               attempts_of_task(job.batch.command[2], uint32_t(std::stoul(job.batch.command[3])),
                                job.task.value_or(0));
  }

 private:
  /// Begins the next attempt of a job that must run. If there is none, ends it and returns false.
  bool go_on(const std::string& id) {
    const std::vector<BatchTask>& tasks = attempts_of(id);
    for (const BatchTask& task : tasks) {
      if (tasks.size() == 1) return try_one(id, task, [&](JobState end) { record(id, task, end); });
      const std::vector<int> numbers = attempts(task.spec.job_directory);
      if (!had_turn_[id].insert(task.spec.job).second) continue;
      if (!numbers.empty() && numbers.back() > task.attempt) continue;
      if (try_one(id, task, [&](JobState end) { append_end(id, task, end); })) return true;
    }
    if (again_.contains(id)) {
      batch_.requeue(id);
    } else {
      batch_.end(id, BatchState::Completed, 0);
    }
    return false;
  }

  /// Returns whether the attempt runs now; otherwise passes its end to `ended`, if that is new.
  bool try_one(const std::string& id, const BatchTask& task,
               const std::function<void(JobState)>& ended) {
    const std::filesystem::path attempt = attempt_directory(task.spec.job_directory, task.attempt);
    const bool is_shared = attempts_of(id).size() > 1;
    if (const auto state = last_state(task); state && is_final(*state)) {
      if (!is_shared) finish(id, *state, task.spec.allow_failure);
      return false;
    }
    make_directories(attempt);
    if (!std::filesystem::exists(attempt / "job.json")) {
      write_file_atomic(attempt / "job.json", to_json(task.spec).dump() + "\n");
    }
    const bool is_cancelled = is_shared && std::filesystem::exists(attempt / "cancel");
    if (is_cancelled || is_withdrawn(task.spec.run_directory, task.spec.job, task.attempt)) {
      ended(JobState::Cancelled);
      return false;
    }
    if (!have_ended(task.spec.parents)) show_records();  // it waits for its parents' records
    if (const JobState end = end_by_parents(task.spec); end != JobState::Running) {
      ended(end);
      return false;
    }
    if (is_running(task.spec.job)) overlaps.push_back(task.spec.job);
    if (successes.contains(task.spec.job)) repeated.push_back(task.spec.job);
    running_[task.spec.job] = id;
    at_work_[id] = task;
    ++runs[task.spec.job];
    append(id, task, JobState::Running);
    return true;
  }

  /// Removes and returns the active attempt of a job.
  BatchTask take_from(const std::string& id) {
    const auto at_work = at_work_.extract(id);
    const BatchTask task = at_work.empty() ? attempts_of(id).front() : at_work.mapped();
    running_.erase(task.spec.job);
    return task;
  }

  /// False for a job that the batch system has cancelled, and so killed.
  bool is_running(const std::string& job) const {
    const auto found = running_.find(job);
    if (found == running_.end()) return false;
    const auto known = batch_.jobs().find(found->second);
    return known != batch_.jobs().end() && known->second.shown.state == BatchState::Running;
  }

  /// The job's end that its parents' results imply, or Running.
  static JobState end_by_parents(const JobSpec& spec) {
    const Template command(spec.run_command.is_string() ? Json() : spec.run_command);
    try {
      const Inputs inputs = judge(command.references(), spec, read_parents(spec));
      return inputs.kind == Inputs::Kind::Skip ? JobState::Skipped : JobState::Running;
    } catch (const Error&) {
      return JobState::Blocked;
    }
  }

  static std::optional<JobState> last_state(const BatchTask& task) {
    std::optional<JobState> last;
    for (const JobEvent& event :
         attempt_events(task.spec.job_directory, task.spec.job, task.attempt)) {
      if (event.state) last = event.state;
    }
    return last;
  }

  void append(const std::string& id, const BatchTask& task, JobState state) {
    clock_.advance(std::chrono::seconds(1));
    const auto attempt = attempt_directory(task.spec.job_directory, task.attempt);
    const std::filesystem::path file = attempt / "events.jsonl";
    const auto size = std::filesystem::exists(file) ? std::filesystem::file_size(file) : 0;
    const auto left = outputs.find(task.spec.job);
    record_state(attempt, state, clock_.now(), {},
                 left == outputs.end() ? Json::object() : left->second, id);
    if (late_records == 0 && !unseen_.contains(file)) return;
    late_records = std::max(0, late_records - 1);
    unseen_[file] += read_file(file).substr(size);
    std::filesystem::resize_file(file, size);
  }

  void append_end(const std::string& id, const BatchTask& task, JobState state) {
    append(id, task, state);
    if (state == JobState::Succeeded) ++successes[task.spec.job];
  }

  void record(const std::string& id, const BatchTask& task, JobState state) {
    append_end(id, task, state);
    finish(id, state, task.spec.allow_failure);
  }

  void finish(const std::string& id, JobState state, bool may_fail) {
    const bool good = satisfies_dependents(state) || state == JobState::Skipped ||
                      (may_fail && is_failure(state));
    batch_.end(id, good ? BatchState::Completed : BatchState::Failed, good ? 0 : 1);
  }

  FakeBatchSystem& batch_;
  FakeClock& clock_;
  std::map<std::string, std::string> running_;  // job -> id
  std::map<std::string, BatchTask> at_work_;    // by id
  std::set<std::string> again_;                 // ids with an attempt that must run again
  std::map<std::string, std::set<std::string>> had_turn_;  // by id: jobs, in its current pass
  std::map<std::filesystem::path, std::string> unseen_;
  mutable std::map<std::string, std::vector<BatchTask>> submitted_;  // by id
};

}  // namespace dlflow::test
