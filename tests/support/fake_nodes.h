#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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

/// The compute nodes of a FakeBatchSystem: what `dlflow job-exec` does there, without processes.
/// They note who runs, so that a test can see whether anything ran twice.
class FakeNodes {
 public:
  FakeNodes(FakeBatchSystem& batch, FakeClock& clock) : batch_(batch), clock_(clock) {}

  std::map<std::string, Json> outputs;   ///< by job: what it leaves
  std::map<std::string, int> runs;       ///< by job: how many of its passes have begun
  std::map<std::string, int> successes;  ///< by job
  std::vector<std::string> overlaps;     ///< jobs that began while another pass of them ran
  std::vector<std::string> repeated;     ///< jobs that began after they had succeeded

  /// So many of the next records are not seen by the login node until show_records(): a network
  /// file system may take a minute. The nodes see them.
  int late_records = 0;
  /// Begins a job that is free to begin. A job of an attempt that has an end, or that was
  /// withdrawn, ends at once. Whether its program runs now.
  bool begin(const std::string& id) {
    show_records();
    const BatchTask task = task_of(id);
    const std::filesystem::path attempt = attempt_directory(task.spec.job_directory, task.attempt);
    batch_.begin(id);
    if (const auto state = last_state(task); state && is_final(*state)) {
      finish(id, *state, task.spec.allow_failure);
      return false;
    }
    make_directories(attempt);
    if (!std::filesystem::exists(attempt / "job.json")) {
      write_file_atomic(attempt / "job.json", to_json(task.spec).dump() + "\n");
    }
    if (is_withdrawn(task.spec.run_directory, task.spec.job, task.attempt)) {
      record(id, JobState::Cancelled);
      return false;
    }
    if (!parents_succeeded(task.spec)) {
      record(id, JobState::Blocked);
      return false;
    }
    if (is_skipped(task.spec)) {
      record(id, JobState::Skipped);
      return false;
    }
    if (is_running(task.spec.job)) overlaps.push_back(task.spec.job);
    if (successes.contains(task.spec.job)) repeated.push_back(task.spec.job);
    running_[task.spec.job] = id;
    ++runs[task.spec.job];
    append(id, task, JobState::Running);
    return true;
  }

  /// Ends a job that runs.
  void end(const std::string& id, JobState state) {
    running_.erase(task_of(id).spec.job);
    record(id, state);
  }

  /// The job's node fails: nothing is recorded.
  void fail_node(const std::string& id) {
    running_.erase(task_of(id).spec.job);
    batch_.end(id, BatchState::NodeFail);
  }

  /// The job saved at its walltime, and goes back to the queue.
  void requeue(const std::string& id) {
    const BatchTask task = task_of(id);
    running_.erase(task.spec.job);
    append(id, task, JobState::Queued);
    batch_.requeue(id);
  }

  /// The login node sees all that the nodes have written.
  void show_records() {
    for (auto& [file, lines] : std::exchange(unseen_, {})) {
      std::ofstream(file, std::ios::app) << lines;
    }
  }

  /// Begins and ends everything that can run, until nothing can.
  void run_all() {
    for (bool any = true; any;) {
      any = false;
      for (const std::string& id : open_ids()) {
        const BatchState state = batch_.jobs().at(id).shown.state;
        if (state == BatchState::Running) end(id, JobState::Succeeded);
        if (state == BatchState::Pending && batch_.is_free(id)) {
          if (begin(id)) end(id, JobState::Succeeded);
          any = true;
        }
      }
    }
  }

  /// The jobs that wait or run.
  std::vector<std::string> open_ids() const {
    std::vector<std::string> ids;
    for (const auto& [id, job] : batch_.jobs()) {
      if (!is_over(job.shown.state)) ids.push_back(id);
    }
    return ids;
  }

  std::string job_of(const std::string& id) const { return task_of(id).spec.job; }

 private:
  /// From the words that the job's script would run: PROGRAM job-exec FILE NUMBER {task}.
  BatchTask task_of(const std::string& id) const {
    const FakeBatchSystem::Job& job = batch_.jobs().at(id);
    return read_batch_task(job.batch.command[2], uint32_t(std::stoul(job.batch.command[3])),
                           job.task.value_or(0));
  }

  /// A job that the batch system has cancelled was killed by it.
  bool is_running(const std::string& job) const {
    const auto found = running_.find(job);
    if (found == running_.end()) return false;
    const auto known = batch_.jobs().find(found->second);
    return known != batch_.jobs().end() && known->second.shown.state == BatchState::Running;
  }

  static bool parents_succeeded(const JobSpec& spec) {
    try {
      read_parents(spec);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  static bool is_skipped(const JobSpec& spec) {
    const Template command(spec.run_command.is_string() ? Json() : spec.run_command);
    return judge(command.references(), spec, read_parents(spec)).kind == Inputs::Kind::Skip;
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

  void record(const std::string& id, JobState state) {
    const BatchTask task = task_of(id);
    append(id, task, state);
    if (state == JobState::Succeeded) ++successes[task.spec.job];
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
  std::map<std::filesystem::path, std::string> unseen_;
};

}  // namespace dlflow::test
