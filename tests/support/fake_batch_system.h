#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/batch/batch_system.h"
#include "tests/support/fake_clock.h"

namespace dlflow::test {

/// A batch system without processes. A test begins and ends the waiting jobs. Dependencies work as
/// in SLURM: a job that depends on a failed one never starts. It outlives the dlflow processes of a
/// test, as a cluster does.
class FakeBatchSystem : public BatchSystem {
 public:
  explicit FakeBatchSystem(const FakeClock& clock) : clock_(clock) {}

  struct Job {
    BatchJob shown;
    std::vector<Dependency> dependencies;  ///< not released yet
    Batch batch;
    std::optional<uint32_t> task;
  };

  // Set by a test.
  int first_id = 811;
  size_t most_jobs = 0;      ///< further jobs are refused as too many; 0: unlimited
  int lost_answers = 0;      ///< number of submissions that succeed without an answer
  int lost_submissions = 0;  ///< number that never arrive; the caller sees no difference
  int silent_queries = 0;    ///< number of queries without an answer
  int empty_queues = 0;      ///< number of empty answers for the queue, as from a broken wrapper
  bool refuses_cancel = false;
  std::optional<BatchState> lies;  ///< the state that the queue shows of every job, true or not
  bool refuses_submit = false;
  std::string refused_step;        ///< refuses submissions of this step only
  size_t at_once = 1;              ///< number of concurrent submissions
  std::set<std::string> unseen;    ///< jobs that are hidden for now
  std::function<void()> on_queue;  ///< called once, after the next query of the queue

  // Inspected by a test.
  std::vector<std::string> submitted;  ///< "train 812 0-2 <- SameTask 811"
  size_t rendered = 0;                 ///< number of batches
  mutable int plannings = 0;           ///< each asks for the rules of arrays

  const std::map<std::string, Job>& jobs() const { return jobs_; }

  /// The ids of the jobs whose name contains `.STEP.`.
  std::vector<std::string> ids_of(const std::string& step) const {
    std::vector<std::string> ids;
    for (const auto& [id, job] : jobs_) {
      if (job.shown.name.find("." + step + ".") != std::string::npos) ids.push_back(id);
    }
    return ids;
  }

  /// Whether the job may begin: all its dependencies are satisfied.
  bool is_free(const std::string& id) const {
    const Job& job = jobs_.at(id);
    return job.shown.state == BatchState::Pending && job.dependencies.empty();
  }

  void begin(const std::string& id) { jobs_.at(id).shown.state = BatchState::Running; }

  void end(const std::string& id, BatchState state, int exit = 0) {
    BatchJob& job = jobs_.at(id).shown;
    job.state = state;
    job.exit = exit;
    job.end = clock_.now();
    release();
  }

  void set_node(const std::string& id, const std::string& node) { jobs_.at(id).shown.node = node; }

  void set_state(const std::string& id, BatchState state) { jobs_.at(id).shown.state = state; }

  /// Holds the job until it is released.
  void hold(const std::string& id) {
    jobs_.at(id).shown.state = BatchState::Held;
    jobs_.at(id).shown.is_held = true;
  }

  /// Puts the job back into the queue.
  void requeue(const std::string& id) { jobs_.at(id).shown.state = BatchState::Pending; }

  /// The controller restarts its numbering: jobs of another run, called `name`, take over all
  /// numbers.
  void renumber(const std::string& name) {
    for (auto& [id, job] : jobs_) {
      job = {.shown = {}, .dependencies = {}, .batch = job.batch, .task = job.task};
      job.shown.id = id;
      job.shown.name = name;
      job.shown.state = BatchState::Pending;
    }
  }

  /// Removes the job from queue and accounting.
  void forget(const std::string& id) { jobs_.erase(id); }

  std::string_view name() const override { return "FAKE"; }
  ArrayRules array_rules() const override {
    ++plannings;
    return rules;
  }
  size_t submissions_at_once() const override { return at_once; }

  SubmitCall render(const Batch& batch, const Profile&) const override {
    auto* const self = const_cast<FakeBatchSystem*>(this);
    ++self->rendered;
    return {"#!/bin/sh\n# " + batch.name + "\n", [self, batch] {
              const std::lock_guard lock(*self->submitting_);
              return self->take(batch);
            }};
  }

  std::vector<BatchJob> queue() override {
    answer_or_throw();
    if (empty_queues > 0) {
      --empty_queues;
      return {};
    }
    std::vector<BatchJob> list;
    for (const auto& [id, job] : jobs_) {
      if (unseen.contains(id)) continue;
      list.push_back(job.shown);
      if (lies) list.back().state = *lies;
    }
    if (on_queue) std::exchange(on_queue, {})();
    return list;
  }

  Accounting accounting(std::span<const std::string> ids, Time) override {
    Accounting answer{.jobs = {}, .missing = ""};
    for (const std::string& id : ids) {
      const auto found = jobs_.find(id);
      if (found != jobs_.end() && is_over(found->second.shown.state)) {
        answer.jobs.push_back(found->second.shown);
      }
    }
    return answer;
  }

  std::vector<BatchJob> find_by_name(std::span<const std::string> names, Time) override {
    answer_or_throw();
    std::vector<BatchJob> found;
    for (const auto& [id, job] : jobs_) {
      if (std::find(names.begin(), names.end(), job.shown.name) != names.end()) {
        found.push_back(job.shown);
      }
    }
    return found;
  }

  std::optional<std::vector<BatchJob>> show_job(const std::string& wanted) override {
    answer_or_throw();
    std::vector<BatchJob> shown;
    for (const auto& [id, job] : jobs_) {
      const bool is_meant = id == wanted || array_id(id) == wanted;
      if (is_meant && !unseen.contains(id)) shown.push_back(job.shown);
    }
    return shown;
  }

  JobAnswer cancel(std::span<const JobIdentity> ours) override {
    if (refuses_cancel) return {JobAnswer::Kind::Refused, "access denied"};
    for (auto& [id, job] : jobs_) {
      const bool meant = std::any_of(ours.begin(), ours.end(), [&](const JobIdentity& wanted) {
        return wanted.is(job.shown);
      });
      if (!meant || is_over(job.shown.state)) continue;
      end(id, BatchState::Cancelled);
      job.shown.cancelled_by = "ann";
    }
    return {};
  }

  JobAnswer ask_to_end(const JobIdentity& job) override {
    if (refuses_cancel) return {JobAnswer::Kind::Refused, "access denied"};
    asked_to_end.push_back(job.id);
    return {};
  }

  JobAnswer wait_for(std::span<const JobIdentity> ours,
                     std::span<const Dependency> dependencies) override {
    for (const JobIdentity& wanted : ours) {
      const auto found = jobs_.find(wanted.id);
      const bool is_there = found != jobs_.end() && wanted.is(found->second.shown);
      if (!is_there) return {JobAnswer::Kind::Gone, "no such job"};
      if (found->second.shown.state != BatchState::Pending) {
        return {JobAnswer::Kind::Refused, "it is not pending"};
      }
    }
    for (const JobIdentity& wanted : ours) {
      Job& job = jobs_.at(wanted.id);
      job.dependencies.assign(dependencies.begin(), dependencies.end());
      job.shown.never_starts = false;
    }
    release();
    return {};
  }

  std::string pending_in_words(const BatchJob&, Time) const override { return ""; }
  std::string cluster_name() override {
    answer_or_throw();
    return "fake";
  }
  ClusterLimits cluster() override {
    answer_or_throw();
    ClusterLimits limits;
    limits.cluster = "fake";
    return limits;
  }
  std::string detect_profile(const std::string&, const std::string&) override { return ""; }

  ArrayRules rules;
  std::vector<std::string> asked_to_end;

 private:
  void answer_or_throw() {
    if (silent_queries == 0) return;
    --silent_queries;
    throw Error(Errc::Unavailable, "the fake batch system does not answer");
  }

  size_t num_open() const {
    return size_t(std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
      return !is_over(entry.second.shown.state);
    }));
  }

  SubmitAnswer take(const Batch& batch) {
    const bool is_refused =
        !refused_step.empty() && batch.name.find("." + refused_step + ".") != std::string::npos;
    if (refuses_submit || is_refused) return Refused{"invalid account"};
    const size_t tasks = std::max<size_t>(1, batch.tasks.size());
    if (most_jobs > 0 && num_open() + tasks > most_jobs) return Refused{"too many jobs", true};
    if (lost_submissions > 0) {
      --lost_submissions;
      return Unclear{"no answer"};
    }
    const std::string id = std::to_string(first_id++);
    for (size_t i = 0; i < tasks; ++i) {
      Job job{.shown = {}, .dependencies = batch.dependencies, .batch = batch, .task = {}};
      job.shown.id = id;
      if (!batch.tasks.empty()) {
        job.task = batch.tasks[i];
        job.shown.id += "_" + std::to_string(batch.tasks[i]);
      }
      job.shown.name = batch.name;
      job.shown.state = BatchState::Pending;
      jobs_[job.shown.id] = std::move(job);
    }
    std::string line = batch.name.substr(batch.name.find('.') + 1);
    line = line.substr(line.find('.') + 1);
    submitted.push_back(line.substr(0, line.find('.')) + " " + id);
    release();
    if (lost_answers > 0) {
      --lost_answers;
      return Unclear{"no answer"};
    }
    return Accepted{id};
  }

  /// The jobs that a dependency refers to.
  std::vector<const Job*> about(const Dependency& dependency, const Job& waiting) const {
    std::vector<const Job*> jobs;
    for (const auto& [id, job] : jobs_) {
      const bool same = id == dependency.id || array_id(id) == dependency.id;
      const bool task = dependency.kind != Dependency::Kind::SameTask || job.task == waiting.task;
      if (same && task) jobs.push_back(&job);
    }
    return jobs;
  }

  void release() {
    while (release_once()) {
    }
  }

  /// Returns whether a job has left the queue, which may release others.
  bool release_once() {
    bool any = false;
    for (auto& [id, job] : jobs_) {
      if (job.shown.state != BatchState::Pending) continue;
      std::erase_if(job.dependencies, [&, &waiting = job](const Dependency& dependency) {
        const auto parents = about(dependency, waiting);
        return std::all_of(parents.begin(), parents.end(), [&](const Job* parent) {
          const BatchState state = parent->shown.state;
          const bool failed = is_over(state) && state != BatchState::Completed;
          if (failed && dependency.kind != Dependency::Kind::End) {
            waiting.shown.never_starts = true;
            return false;
          }
          return is_over(state);
        });
      });
      if (!job.shown.never_starts || !job.batch.leaves_if_hopeless) continue;
      job.shown.state = BatchState::Cancelled;
      job.shown.end = clock_.now();
      any = true;
    }
    return any;
  }

  const FakeClock& clock_;
  std::map<std::string, Job> jobs_;                                          // by id
  std::shared_ptr<std::mutex> submitting_ = std::make_shared<std::mutex>();  // shared with copies
};

}  // namespace dlflow::test
