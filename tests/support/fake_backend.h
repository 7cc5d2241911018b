#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/backend/backend.h"
#include "engine/plan/run_directory.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_supervisor.h"

namespace dlflow::test {

/// Ends an engine in the middle of its work, as kill -9 would.
struct Killed {};

/// A back end without processes. A job runs as soon as it is submitted; each wait() ends one, in
/// the order of submission. Every event is written to its attempt's events.jsonl as a supervisor
/// would. It outlives the engines of a run, as supervisors do.
class FakeBackend : public Backend {
 public:
  explicit FakeBackend(FakeClock& clock) : clock_(clock) {}

  // Set by a test.
  int cores = 1000;
  std::map<std::string, std::deque<JobState>> ends;  ///< by job, next first; default: Succeeded
  std::map<std::string, Json> outputs;               ///< of succeeded jobs
  std::map<std::string, int> exits;                  ///< of failed jobs
  std::map<std::string, Recovery> recovery;          ///< by default, submitted jobs are watched
  std::set<std::string> held;                        ///< jobs that run until they are stopped
  std::set<std::string> stubborn;                    ///< jobs that never finish saving
  std::function<void(const JobName& job)> on_submit;
  int waits_until_killed = -1;

  // Inspected by a test.
  std::vector<std::string> submitted;  ///< "train", attempt 2 "train#2", pass 2 "train#1.2"
  std::vector<std::pair<std::string, Stop>> stopped;
  std::map<std::string, uint64_t> events_read;  ///< by the name in `submitted`

  void fail(const std::string& job) { ends[job].push_back(JobState::Failed); }

  void check(const Plan&) const override {}
  void begin(const std::filesystem::path&) override {}

  bool has_room(const Resources& resources) const override {
    return resources.ranks * resources.cpus_per_rank <= cores - taken_;
  }

  void submit(const Submission& submission) override {
    submitted.push_back(label(submission));
    events_read[submitted.back()] = submission.events_read;
    if (on_submit) on_submit(submission.name);
    taken_ += cores_of(submission);
    running_.push_back(submission);
    const auto& states = ends[submission.name];
    const bool skips = !states.empty() && states.front() == JobState::Skipped;
    if (!skips) record(submission, JobState::Running);
  }

  Recovery recover(const Submission& submission) override {
    const auto set = recovery.find(submission.name);
    if (set != recovery.end() && set->second == Recovery::Vanished) {
      end(submission);
    }
    if (set != recovery.end()) return set->second;
    return find(submission.job) == running_.end() ? Recovery::NotStarted : Recovery::Watched;
  }

  bool withdraw(const Submission& submission) override {
    return find(submission.job) == running_.end();
  }

  std::vector<Update> wait(std::chrono::milliseconds timeout, int) override {
    if (waits_until_killed == 0) throw Killed();
    if (waits_until_killed > 0) --waits_until_killed;
    if (news_.empty()) end_one();
    if (news_.empty()) clock_.advance(timeout);
    return std::exchange(news_, {});
  }

  void stop(uint32_t job, Stop how) override {
    const auto found = find(job);
    if (found == running_.end()) return;
    stopped.emplace_back(found->name, how);
    const Submission submission = *found;
    if (how == Stop::AndSave && stubborn.contains(submission.name)) return;
    record(submission, JobState::Cancelled);
    end(submission);
  }

  /// Loses the updates that a killed engine had not yet taken; their files remain.
  void forget_news() { news_.clear(); }

 private:
  static int cores_of(const Submission& s) { return s.resources.ranks * s.resources.cpus_per_rank; }

  static std::string label(const Submission& s) {
    std::string label = s.name;
    if (s.attempt > 1 || s.pass > 1) label += "#" + std::to_string(s.attempt);
    if (s.pass > 1) label += "." + std::to_string(s.pass);
    return label;
  }

  std::deque<Submission>::iterator find(uint32_t job) {
    return std::find_if(running_.begin(), running_.end(),
                        [job](const Submission& s) { return s.job == job; });
  }

  void end(const Submission& submission) {
    const auto found = find(submission.job);
    if (found == running_.end()) return;
    taken_ -= cores_of(submission);
    running_.erase(found);
  }

  void end_one() {
    const auto next = std::find_if(running_.begin(), running_.end(),
                                   [this](const Submission& s) { return !held.contains(s.name); });
    if (next == running_.end()) return;
    const Submission submission = *next;
    JobState state = JobState::Succeeded;
    auto& states = ends[submission.name];
    if (!states.empty()) {
      state = states.front();
      states.pop_front();
    }
    record(submission, state);
    end(submission);
  }

  void record(const Submission& submission, JobState state) {
    const auto folder = attempt_directory(submission.job_directory, submission.attempt);
    const auto exit = state == JobState::Failed ? exits.find(submission.name) : exits.end();
    const auto left = outputs.find(submission.name);
    JobEvent event = record_state(folder, state, clock_.now(),
                                  exit == exits.end() ? std::nullopt : std::optional(exit->second),
                                  left == outputs.end() ? Json::object() : left->second);
    event.job = submission.name;
    event.attempt = submission.attempt;
    news_.push_back({submission.job, std::move(event), true});
  }

  FakeClock& clock_;
  std::deque<Submission> running_;
  std::vector<Update> news_;
  int taken_ = 0;
};

}  // namespace dlflow::test
